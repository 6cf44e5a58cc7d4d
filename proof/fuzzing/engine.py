"""The engine: atheris, Google's libFuzzer for Python.

libFuzzer chooses the inputs, and keeps those that reach new code. A child process imports the targets with
atheris's counters, which takes seconds, and forks for each of their turns. `main` is the child.
"""

import importlib
import importlib.util
import json
import logging
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from proof.fuzzing.target import MOST_BYTES

_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_EDGES = re.compile(r"\bcov: (\d+)")
_WHY = re.compile(r"(?:Uncaught Python exception: ===|ERROR: libFuzzer:)\s*(.{1,500})", re.DOTALL)
# Seconds that a turn may take beyond those it was given: the imports, and the inputs that it begins with.
_PATIENCE = 120.0
_SEEDS = 2**31 - 1  # libFuzzer's seeds have 32 bits, and 0 is none
# Inputs of a target in the repository.
_MOST_COMMITTED = 40


class EngineFailed(Exception):
    """The child process does not run, or does not end."""


class Explored(NamedTuple):
    """What a turn has found."""

    inputs: list[bytes]  # that reach new code
    broken: list[bytes]  # that broke the invariant, took too long or too much memory; at most one
    why: str  # what libFuzzer says of it
    executions: int
    edges: int  # of the code that were reached


def is_installed() -> bool:
    """Whether atheris is there: it has wheels for few platforms."""
    return importlib.util.find_spec("atheris") is not None


class Explorer:
    """The child process. To be left as a context."""

    def __init__(
        self,
        table: str = "proof.fuzzing.targets",
        packages: Sequence[str] = ("codec", "schema", "proxy", "pipeline.formats"),
        slow_s: int = 60,
    ) -> None:
        """`table`: the module with TARGETS. `packages`: whose coverage counts. `slow_s`: for one input."""
        self._command = [sys.executable, "-m", __name__, table, ",".join(packages)]
        self._slow_s = slow_s

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            self._command,
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

    def explore(
        self, name: str, inputs: Iterable[bytes], seed: int, seconds: float, executions: int = -1
    ) -> Explored:
        """Let libFuzzer look for inputs to the target `name`, until one bound is reached.

        Raises EngineFailed if it does not run.
        """
        with tempfile.TemporaryDirectory(prefix="zketcd-fuzzing-") as scratch:
            kept, broken = _folder(scratch, "kept", inputs), _folder(scratch, "broken")
            options = [
                f"-max_total_time={max(1, round(seconds))}",
                f"-runs={executions}",
                f"-timeout={self._slow_s}",
                f"-seed={1 + (seed - 1) % _SEEDS}",
                f"-artifact_prefix={broken}/",
                "-print_final_stats=1",
                str(kept),
            ]
            code, said = self._turn(name, scratch, options, seconds)
            units = _UNITS.search(said)
            found = [file.read_bytes() for file in sorted(broken.iterdir())]
            if units is None and not found:
                raise EngineFailed(f"atheris ended with code {code} for {name}: {_last_line(said)}")
            new = [file for file in sorted(kept.iterdir()) if not file.name.startswith("given-")]
            why, edges = _WHY.search(said), _EDGES.findall(said)
            return Explored(
                [file.read_bytes() for file in new],
                found,
                "unknown" if why is None else why[1].strip(),
                0 if units is None else int(units[1]),
                int(edges[-1]) if edges else 0,
            )

    def distill(self, name: str, inputs: Iterable[bytes]) -> list[bytes]:
        """The inputs that together reach what all reach; of many, the smallest. Raises EngineFailed."""
        with tempfile.TemporaryDirectory(prefix="zketcd-fuzzing-") as scratch:
            given, best = _folder(scratch, "given", inputs), _folder(scratch, "best")
            code, said = self._turn(name, scratch, ["-merge=1", str(best), str(given)], _PATIENCE)
            if code:
                raise EngineFailed(f"atheris ended with code {code} for {name}: {_last_line(said)}")
            return sorted((file.read_bytes() for file in best.iterdir()), key=len)[:_MOST_COMMITTED]

    def _turn(self, name: str, scratch: str, options: list[str], seconds: float) -> tuple[int, str]:
        """The exit code of one turn, and what libFuzzer said."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        said = Path(scratch, "said")
        # A merge starts this again as a process of its own.
        order = [name, str(said), shlex.join([*self._command, name]), f"-max_len={MOST_BYTES}", *options]
        try:
            self._child.stdin.write(json.dumps(order).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise EngineFailed(f"atheris does not start: code {self._child.wait()}") from None
        if not select.select([self._child.stdout], [], [], seconds + _PATIENCE)[0]:
            raise EngineFailed(f"atheris takes more than {seconds + _PATIENCE:.0f} s for {name}")
        answer = self._child.stdout.readline()
        if not answer:
            raise EngineFailed(f"atheris does not start: code {self._child.wait()}")
        return int(answer), said.read_text(errors="replace") if said.exists() else ""


def _folder(scratch: str, name: str, inputs: Iterable[bytes] = ()) -> Path:
    folder = Path(scratch, name)
    folder.mkdir()
    for number, data in enumerate(inputs):
        (folder / f"given-{number}").write_bytes(data)
    return folder


def _last_line(said: str) -> str:
    return (said.strip().splitlines() or ["it printed nothing"])[-1]


def main(table: str, packages: str, name: str = "", *options: str) -> None:
    """The child. Without a name: a fork for each line, a JSON list of target, output file, and arguments."""
    import atheris

    # Inputs are refused by the thousand; each would be a line in the log.
    logging.disable(logging.WARNING)
    with atheris.instrument_imports(include=packages.split(",")):
        from proof.fuzzing.target import judge

        targets = importlib.import_module(table).TARGETS

    def fuzz(name: str, arguments: list[str]) -> None:
        def one(data: bytes) -> None:
            judge(targets[name], data)

        atheris.Setup(arguments, one)
        atheris.Fuzz()

    if name:
        fuzz(name, [name, *options])
    for line in sys.stdin:
        name, said, *arguments = json.loads(line)
        fork = os.fork()
        if fork == 0:
            # It must neither take the next line nor send an answer.
            null = os.open(os.devnull, os.O_RDWR)
            messages = os.open(said, os.O_WRONLY | os.O_CREAT)
            for number, file in enumerate((null, null, messages)):
                os.dup2(file, number)
            fuzz(name, arguments)
            os._exit(0)
        _, status = os.waitpid(fork, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
