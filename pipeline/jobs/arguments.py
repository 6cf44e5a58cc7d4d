"""Kinds of values on the command line."""

import argparse


def seconds(text: str) -> float:
    """A duration, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def zxid(text: str) -> int:
    """A zxid, for argparse: hexadecimal with 0x, or decimal."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no zxid, such as 0x500000123") from None
