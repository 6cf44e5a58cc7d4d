"""Kinds of values on the command line, and options that several commands have."""

import argparse

from pipeline.etcd.limits import Limits
from pipeline.jobs.summary import positive


def add_max_request_bytes(parser: argparse.ArgumentParser) -> None:
    """Add the option for etcd's own limit of a request."""
    parser.add_argument(
        "--max-request-bytes",
        type=positive,
        default=Limits().max_request_bytes,
        help="etcd's own --max-request-bytes (default: 1572864)",
    )


def add_metrics_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option for the file of a textfile collector."""
    parser.add_argument(
        "--metrics",
        metavar="FILE",
        help="write to FILE when the copy was last level, about once a second, for node_exporter's textfile"
        " collector",
    )


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
