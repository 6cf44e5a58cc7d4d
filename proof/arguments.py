"""What the command lines of several programs here share."""

import argparse

from proxy.support.usage import Parser


def command_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m PROGRAM`, whose help has the description as it stands."""
    return Parser(
        prog=f"python -m {program}",
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def positive(value: str) -> float:
    """An argparse type: a number above 0."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number above 0")
    return number


def at_least_one(value: str) -> int:
    """An argparse type: a whole number above 0, of at most six digits."""
    if not value.isascii() or not value.isdigit() or len(value) > 6 or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a whole number above 0")
    return int(value)
