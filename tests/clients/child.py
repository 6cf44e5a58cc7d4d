"""A Python program that a test asks things, one line of its standard input for each."""

import subprocess
import sys
from pathlib import Path
from typing import Self

from lab.servers.process import REPOSITORY


class Child:
    """The program runs while the context is open; `errors` is the file of its standard error."""

    def __init__(self, errors: Path, *arguments: str) -> None:
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with self._process:  # closes its pipes: a JVM of its own ends with them
            pass

    def ask(self, line: str, answer: str) -> str:
        """Ask; the first line that begins with `answer`. Raises EOFError with its words when it is gone."""
        assert self._process.stdin
        assert self._process.stdout
        print(line, file=self._process.stdin, flush=True)
        for said in self._process.stdout:
            if said.startswith(answer):
                return said
        raise EOFError(self._errors.read_text()[-3000:])

    def ends(self) -> None:
        """Ask it to end, and wait."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(60) == 0
