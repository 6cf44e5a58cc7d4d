"""Parse, run one command, print. Exit codes: 0 done, 1 not done, 2 wrong usage."""

import logging
import sys
from collections.abc import Sequence
from typing import Any

from cli.client import Refused
from cli.connection import access_of, connecting_parser, endpoints
from cli.output import CommandFailed, WrongUsage, say, show
from ctl.program import PAST, Past, Tree, program_of
from proxy.etcd.access import Access
from proxy.etcd.failures import for_operator
from proxy.etcd.model import EtcdError
from proxy.log.record import TreeNotServable
from proxy.options.archive import archive_url
from proxy.state.machine import Machine
from proxy.support.environment import clock_ms


def parser(command: str) -> Any:
    """The parser of a command."""
    made = connecting_parser(command)
    made.add_argument("--json", action="store_true", help="print JSON instead of text")
    if command in PAST:
        made.own = ("archive", "at")
        made.add_argument(
            "--archive",
            type=archive_url,
            metavar="URL",
            help="read the archive there instead of etcd (docs/archive.md)",
        )
        made.add_argument(
            "--at",
            metavar="MOMENT",
            default="now",
            help="the moment to show, of the archive: a time (UTC), a zxid (0x...), a position, or how long"
            " ago (10m)",
        )
    program_of(command).arguments(made)
    return made


def main(arguments: Sequence[str], command: str) -> int:
    """Run one command; the exit code."""
    made = parser(command)
    given = made.parse_args(arguments)
    tree = Tree(given, made, Access(endpoints(given), access_of(given, made)))
    if command in PAST and given.archive:
        tree = _past(tree)
    elif command in PAST and given.at != "now":
        made.error("--at needs --archive: etcd has no past (of its log, `zketcd replay` shows some)")
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        output = program_of(command).run(tree, given)
    except (CommandFailed, Refused, TreeNotServable, EtcdError, OSError, ValueError) as error:
        say(f"zketcd {command}: {for_operator(error, given.prefix)}")
        return 2 if isinstance(error, WrongUsage) else 1
    if output is not None:
        show(output.text(given.json))
    return 0


def _past(tree: Tree) -> Tree:
    """The tree as of the wanted moment of its archive."""
    from archive.files.catalog import ArchiveError
    from archive.files.moment import moment
    from archive.files.store import existing
    from archive.past.state import state_at

    given = tree.given
    try:
        wanted = moment(given.at, clock_ms())
    except ValueError as error:
        tree.parser.error(f"argument --at: {error}")

    def load() -> Machine:
        try:
            return state_at(existing(given.archive), wanted)
        except ArchiveError as error:
            raise CommandFailed(str(error)) from error

    return Past(tree, load)
