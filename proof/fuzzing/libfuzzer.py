"""One run of libFuzzer on one target, by atheris: it chooses the inputs, and keeps those that reach new code.

`python -m proof.fuzzing.libfuzzer TABLE TARGET OPTION...` is the process of it; `run` starts that.
"""

import importlib
import importlib.util
import logging
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.fuzzing.target import MOST_BYTES

TABLE = "proof.fuzzing.targets"  # the module with TARGETS
_COMMAND = f"{sys.executable} -m proof.fuzzing.libfuzzer"
_PACKAGES = ["codec", "schema", "proxy", "pipeline.formats"]  # whose coverage counts
_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


class Run(NamedTuple):
    """The result of a run."""

    code: int  # of the process; 0: no input broke the invariant
    executions: int
    said: str  # by libFuzzer, with the traceback of a finding


def is_installed() -> bool:
    """Whether atheris is there: it has wheels for few platforms."""
    return importlib.util.find_spec("atheris") is not None


def run(target: str, options: Sequence[str | Path]) -> Run:
    """Run it to its end; `options` are libFuzzer's."""
    process = subprocess.run(
        [*shlex.split(_COMMAND), TABLE, target, f"-max_len={MOST_BYTES}", *map(str, options)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    units = _UNITS.search(process.stderr)
    return Run(process.returncode, 0 if units is None else int(units[1]), process.stderr)


def main(table: str, name: str, *options: str) -> None:
    """Be the process of a run. It ends with libFuzzer."""
    import atheris

    # Inputs are refused by the thousand; each would be a line in the log.
    logging.disable(logging.WARNING)
    with atheris.instrument_imports(include=[*_PACKAGES, table]):
        from proof.fuzzing.target import judge

        target = importlib.import_module(table).TARGETS[name]

    def one(data: bytes) -> None:
        judge(target, data)

    # A merge starts this program again: libFuzzer takes the first argument for its command.
    atheris.Setup([f"{_COMMAND} {table} {name}", *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
