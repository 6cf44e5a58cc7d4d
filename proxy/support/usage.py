"""Wrong usage is reported in one line; --help shows what a command line should be.

A word that the parser does not know may be a password: of an option whose name is misspelt. So errors name
options, and never show unknown words or the values of unknown options.
"""

import argparse
import os
import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """argparse's parser, and base of its subcommands' parsers, without the whole usage before an error."""

    def __init__(self, **options: Any) -> None:
        """As argparse's, but an option has to be written out."""
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Print the error as one line on standard error; exit with 2."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())} (see --help)\n")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """The options. Unknown ones are an error."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {self._described(unknown)}")
        return found

    def _described(self, unknown: Sequence[str]) -> str:
        """Unknown arguments without their values."""
        names = [match.group() for word in unknown if (match := _OPTION.match(word))]
        described = [f"{name}{self.place_of_unknown(name)}{self._hint(name)}" for name in names]
        if not names:
            count = len(unknown)
            described.append(f"{count} word{'s' * (count > 1)} too many")
        return ", ".join(described)

    def _hint(self, name: str) -> str:
        known = self._option_string_actions
        # A command within this one does not know it (`replay --to 7 ls / --etcd ...`).
        return " (give it before the inner command)" if name in known else nearest(name, known)

    def place_of_unknown(self, name: str) -> str:
        """Where an unknown option is, if not on the command line."""
        return ""


_OPTION = re.compile(r"--[A-Za-z][A-Za-z0-9_-]*")


def nearest(name: str, known: Collection[str]) -> str:
    """A question to append to an error about an unknown name; "" if no known name is similar."""
    found = get_close_matches(name, known, 1, 0.75)
    return f" (did you mean {found[0]}?)" if found else ""


def output_file(value: str) -> Path:
    """An argparse type: a file to write when the work is done. What cannot be written is refused before."""
    path = Path(value)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{value!r} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{value!r}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{value!r} cannot be written")
    return path
