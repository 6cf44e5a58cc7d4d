"""The summary that a command prints at the end, on stdout, a fact a line."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cli.output import one_line, show

if TYPE_CHECKING:
    from pipeline.jobs.census import Census


def print_line(text: str) -> None:
    """Print one line."""
    show(one_line(text), flush=True)


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
