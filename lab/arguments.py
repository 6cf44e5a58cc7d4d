"""Types of command-line arguments: numbers within bounds, names of a list, folders to write into."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path


def whole(least: int = 1, most: int = 999_999_999) -> Callable[[str], int]:
    """A whole number from `least` to `most`."""

    def parse(value: str) -> int:
        digits = value.isascii() and value.isdigit() and len(value) <= len(str(most))
        if not digits or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(f"{value!r} is not a whole number from {least} to {most}")
        return int(value)

    return parse


def number(most: float, *, zero: bool = False) -> Callable[[str], float]:
    """A number above 0 (with `zero`: from 0), up to `most`."""

    def parse(value: str) -> float:
        try:
            found = float(value)
        except ValueError:
            found = -1.0
        if not 0 <= found <= most or (found == 0 and not zero):
            raise argparse.ArgumentTypeError(
                f"{value!r} is not a number {'from' if zero else 'above'} 0, up to {most:g}"
            )
        return found

    return parse


#: Numbers of things, and of bytes; seconds up to a day.
count, size = whole(), whole(0)
seconds = number(86_400)


def add_names(parser: argparse.ArgumentParser, option: str, known: Sequence[str]) -> None:
    """An option for some of these names, of which all are the default."""
    parser.add_argument(
        option,
        type=names_of(known),
        default=list(known),
        metavar="NAME,...",
        help=f"some of {', '.join(known)} (default: all)",
    )


def names_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A comma-separated choice from `known`."""

    def parse(value: str) -> list[str]:
        chosen = value.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return list(dict.fromkeys(chosen))

    return parse


def output_folder(value: str) -> Path:
    """An argparse type: a folder to write into, which need not be there yet."""
    path = Path(value)
    above = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise argparse.ArgumentTypeError(f"{value!r}: {above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{value!r}: {above} cannot be written to")
    return path
