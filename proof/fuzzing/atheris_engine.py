"""The same targets under atheris, Google's libFuzzer for Python, where it is installed: a child process each.

libFuzzer chooses the inputs, and keeps those that reach new code; what it brings is then judged by our own
engine, which also bounds memory and makes findings small. `main` is the child.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.fuzzing.mutate import MOST_BYTES

_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_INSTRUMENTED = ["codec", "schema", "proxy", "pipeline.formats"]
# Seconds that the child may take beyond those it was given: imports, and the inputs that it begins with.
_PATIENCE = 120.0


class Explored(NamedTuple):
    """What a child has found."""

    inputs: list[bytes]  # that reach new code, or break the invariant
    executions: int


def is_installed() -> bool:
    """Whether atheris is there: it has wheels for few platforms."""
    return importlib.util.find_spec("atheris") is not None


def explore(name: str, inputs: Sequence[bytes], seed: int, seconds: float) -> Explored:
    """Let libFuzzer look for inputs to the target `name`. Raises RuntimeError if it does not run at all."""
    with tempfile.TemporaryDirectory(prefix="zketcd-atheris-") as scratch:
        kept, broken = Path(scratch) / "corpus", Path(scratch) / "broken"
        kept.mkdir()
        broken.mkdir()
        for number, data in enumerate(inputs):
            (kept / f"given-{number}").write_bytes(data)
        child = subprocess.run(
            [
                sys.executable,
                "-m",
                "proof.fuzzing.atheris_engine",
                name,
                f"-max_total_time={max(1, round(seconds))}",
                f"-seed={seed}",
                f"-max_len={MOST_BYTES}",
                f"-artifact_prefix={broken}/",
                "-print_final_stats=1",
                str(kept),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=seconds + _PATIENCE,
            check=False,
        )
        units = _UNITS.search(child.stderr)
        if units is None:
            raise RuntimeError(f"atheris ended with code {child.returncode}: {child.stderr[-2000:]}")
        new = [file for file in sorted(kept.iterdir()) if not file.name.startswith("given-")]
        return Explored([file.read_bytes() for file in [*sorted(broken.iterdir()), *new]], int(units[1]))


def main() -> None:
    """The child: fuzz the target that the first argument names; the other arguments are libFuzzer's."""
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        from proof.fuzzing.target import judge
        from proof.fuzzing.targets import TARGETS
    target = TARGETS[sys.argv[1]]

    def one(data: bytes) -> None:
        judge(target, data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
