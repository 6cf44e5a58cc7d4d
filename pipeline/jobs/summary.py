"""The summary that a command prints at the end, on stdout, a fact a line."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.live.address import Identity, identity_of

if TYPE_CHECKING:
    from pipeline.jobs.census import Census

_LISTED = 50


def print_line(text: str) -> None:
    """Print one line."""
    print(text, flush=True)


def print_list(what: str, items: Iterable[str], most: int) -> None:
    """Print a line for each of the first `most` items."""
    for number, item in enumerate(items):
        if number == most:
            print_line(f"{what}: ... and more (--list)")
            return
        print_line(f"{what}: {item}")


def print_tree(counted: "Census", sessions: int, most: int) -> None:
    """Print what moves, with how many sessions, and which ephemerals do not."""
    kinds = counted.kinds
    print_line(f"znodes: {counted.nodes}, {counted.data_bytes} bytes of data")
    print_line(
        f"containers: {kinds['container']}, TTL nodes: {kinds['ttl']}, nodes with an ACL: {counted.with_acl}"
    )
    print_line(
        f"ephemerals: {kinds['ephemeral'] - counted.dropped.nodes} kept with {sessions} sessions,"
        f" {counted.dropped.nodes} dropped"
    )
    print_list("dropped", counted.dropped.paths, most)


def add_list_argument(parser: argparse.ArgumentParser) -> None:
    """--list."""
    parser.add_argument(
        "--list",
        dest="listed",
        type=number,
        default=_LISTED,
        metavar="N",
        help=f"number of paths to print of each kind (default: {_LISTED})",
    )


def add_progress_argument(parser: argparse.ArgumentParser) -> None:
    """Add --json, for a command that has no other use for it."""
    parser.add_argument("--json", action="store_true", help="print the progress as lines of JSON, on stderr")


def add_auth_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option for our identity at a running ensemble."""
    parser.add_argument(
        "--auth",
        type=_identity,
        action="append",
        default=[],
        metavar="SCHEME:ID",
        help="identity for a running ensemble, e.g. digest:user:password; may be repeated",
    )


def _identity(text: str) -> Identity:
    try:
        return identity_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def number(text: str) -> int:
    """A whole number from 0 up, of the command line."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1 up, of the command line."""
    if not number(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
