"""A tree as an archive has it at a moment: archive:URL on a command line, with --at."""

import argparse
import time

from archive.catalog import ArchiveError
from archive.moment import NOW, Moment, moment
from archive.past import state_at
from archive.store import store_of
from pipeline.errors import Failure
from pipeline.etcd.read import Survey
from pipeline.etcd.tree import changed_of
from proxy.state.machine import Machine

PREFIX = "archive:"
_NOW = "now"


def add_argument(parser: argparse.ArgumentParser) -> None:
    """--at."""
    parser.add_argument(
        "--at",
        type=_at,
        default=_NOW,
        metavar="MOMENT",
        help=f"the moment of {PREFIX}URL: a time (UTC), a zxid (0x...), a position, or how long ago (10m)",
    )


def check(arguments: argparse.Namespace, *names: str | None) -> None:
    """Raises Failure for an --at without an archive."""
    if arguments.at != NOW and not any(name and name.startswith(PREFIX) for name in names):
        raise Failure(f"--at goes with {PREFIX}URL: etcd and files have one state")


def machine_of(name: str, at: Moment) -> Machine:
    """The state. Raises Failure."""
    try:
        return state_at(store_of(name.removeprefix(PREFIX)), at)
    except (ArchiveError, ValueError) as error:
        raise Failure(str(error)) from error


def survey_of(machine: Machine) -> Survey:
    """The state as a tree that is read: all of its nodes are in memory."""
    return Survey(0, None, 0, changed_of(machine, machine.tree.nodes.keys(), 0))


def _at(text: str) -> Moment:
    try:
        return moment(text, int(time.time() * 1000))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
