"""Types of command-line arguments that several commands here share."""

import argparse


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
