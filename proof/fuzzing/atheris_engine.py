"""The same targets under atheris, Google's libFuzzer for Python, where it is installed.

libFuzzer chooses the inputs, and keeps those that reach new code; what it brings is then judged by our own
engine, which also bounds memory and makes findings small. A child process imports the targets with atheris's
counters, which takes seconds, and forks for each of their turns. `main` is the child.
"""

import importlib.util
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from proof.fuzzing.mutate import MOST_BYTES

_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_WHY = re.compile(r"(?:Uncaught Python exception: ===|ERROR: libFuzzer:)\s*(.{1,500})", re.DOTALL)
_INSTRUMENTED = ["codec", "schema", "proxy", "pipeline.formats"]
# Seconds that a turn may take beyond those it was given: the imports, and the inputs that it begins with.
_PATIENCE = 120.0
_SEEDS = 2**31 - 1  # libFuzzer's seeds have 32 bits, and 0 is none
# Seconds after which libFuzzer gives an input up. On an idle machine none takes one; our own engine counts
# lines instead.
_SLOW_INPUT = 60


class EngineFailed(Exception):
    """The child process does not run, or does not end."""


class Explored(NamedTuple):
    """What a turn has found."""

    inputs: list[bytes]  # that reach new code
    broken: list[bytes]  # that broke the invariant, took too long or too much memory; at most one
    why: str  # what libFuzzer says of it
    executions: int


def is_installed() -> bool:
    """Whether atheris is there: it has wheels for few platforms."""
    return importlib.util.find_spec("atheris") is not None


class Explorer:
    """The child process. To be left as a context."""

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that its forks end with it
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.communicate()

    def explore(self, name: str, inputs: Sequence[bytes], seed: int, seconds: float) -> Explored:
        """Let libFuzzer look for inputs to the target `name`. Raises EngineFailed if it does not run."""
        with tempfile.TemporaryDirectory(prefix="zketcd-atheris-") as scratch:
            kept, broken, errors = (Path(scratch) / part for part in ("corpus", "broken", "errors"))
            kept.mkdir()
            broken.mkdir()
            for number, data in enumerate(inputs):
                (kept / f"given-{number}").write_bytes(data)
            options = [
                f"-max_total_time={max(1, round(seconds))}",
                f"-timeout={_SLOW_INPUT}",
                f"-seed={1 + (seed - 1) % _SEEDS}",
                f"-max_len={MOST_BYTES}",
                f"-artifact_prefix={broken}/",
                "-print_final_stats=1",
                str(kept),
            ]
            code = self._turn([name, str(errors), *options], seconds + _PATIENCE)
            said = errors.read_text(errors="replace") if errors.exists() else ""
            units = _UNITS.search(said)
            found = sorted(broken.iterdir())
            if units is None and not found:
                last = said.strip().splitlines() or ["nothing was said"]
                raise EngineFailed(f"atheris ended with code {code} for {name}: {last[-1]}")
            new = [file for file in sorted(kept.iterdir()) if not file.name.startswith("given-")]
            executions = 0 if units is None else int(units[1])
            why = _WHY.search(said)
            return Explored(
                [file.read_bytes() for file in new],
                [file.read_bytes() for file in found],
                "unknown" if why is None else why[1].strip(),
                executions,
            )

    def _turn(self, order: list[str], seconds: float) -> int:
        """The exit code of one turn. Raises EngineFailed if there is none within `seconds`."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(order).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise EngineFailed(f"atheris does not start: code {self._child.wait()}") from None
        if not select.select([self._child.stdout], [], [], seconds)[0]:
            raise EngineFailed(f"atheris takes more than {seconds:.0f} s for {order[0]}")
        answer = self._child.stdout.readline()
        if not answer:
            raise EngineFailed(f"atheris does not start: code {self._child.wait()}")
        return int(answer)


def main() -> None:
    """The child: a fork for each line, a JSON list of target, file for errors, and libFuzzer's options."""
    import atheris

    # As in the parent: inputs are refused by the thousand.
    logging.disable(logging.WARNING)
    with atheris.instrument_imports(include=_INSTRUMENTED):
        from proof.fuzzing.target import judge
        from proof.fuzzing.targets import TARGETS

    def fuzz(name: str, options: list[str]) -> None:
        target = TARGETS[name]

        def one(data: bytes) -> None:
            judge(target, data)

        atheris.Setup([name, *options], one)
        atheris.Fuzz()

    for line in sys.stdin:
        name, errors, *options = json.loads(line)
        fork = os.fork()
        if fork == 0:
            # It must neither take the next line nor send an answer.
            null = os.open(os.devnull, os.O_RDWR)
            messages = os.open(errors, os.O_WRONLY | os.O_CREAT)
            for number, file in enumerate((null, null, messages)):
                os.dup2(file, number)
            fuzz(name, options)
            os._exit(0)
        _, status = os.waitpid(fork, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
