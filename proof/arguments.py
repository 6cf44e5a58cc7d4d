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
