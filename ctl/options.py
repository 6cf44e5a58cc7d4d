"""The command lines of the commands that read or repair a tree in etcd."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.client import add_server
from cli.commands import COMMANDS, description_of
from cli.connection import connecting_parser
from proxy.options import values
from proxy.options.archive import archive_url
from proxy.support.usage import Parser

#: The commands that show any moment of an archive.
PAST = ("ls", "get", "stat", "sessions")

#: How `sessions` can be sorted.
ORDERS = ("session", "client", "proxy", "timeout", "ephemerals")


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
    _ARGUMENTS.get(command, _no_arguments)(made)
    made.set_defaults(command=command)
    return made


def _no_arguments(parser: ArgumentParser) -> None:
    """Of a command that has none."""


def _ls(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("-R", "--recursive", action="store_true", help="list the whole subtree")


def _get(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--hex", action="store_true", help="show the data as hexadecimal numbers")


def _stat(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")


def _find_big(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", default="/", metavar="PATH", help="only this node and those below it"
    )
    parser.add_argument("--limit", type=values.positive, default=10, metavar="N", help="how many of each")


def _sessions(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--client",
        metavar="ADDRESS",
        help="only those of clients with this address, or in this network (10.0.0.0/8)",
    )
    add("--proxy", metavar="NAME", help="only those of this proxy: its incarnation or its host")
    add("--sort", choices=ORDERS, default=ORDERS[0], help="the order; ephemerals: those with most come first")


def _top(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-b", "--once", action="store_true", help="print it once, as is done where stdout is no terminal")
    add("--admin", metavar="URL", help="ask only this admin port, such as http://127.0.0.1:8080; etcd is not")
    add("--sort", choices=("all", "reads", "writes"), default="all", help="what comes first in each list")
    add("--limit", type=values.positive, default=10, metavar="N", help="rows of each list, 200 at most")
    add("--delay", type=values.positive, default=3, metavar="SECONDS", help="time between two screens")


def _backup(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="the directory of the backups; each has one of its own"
    )
    parser.add_argument(
        "--keep",
        type=values.not_negative,
        default=0,
        metavar="N",
        help="delete all but the newest N backups of this tree; 0 keeps all",
    )


def _budget(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "set", "remove"), help="what to do")
    parser.add_argument(
        "budgets",
        nargs="*",
        metavar="BUDGET",
        help="set: a path and its rates, such as /app=500/s,10MB/s; remove: a path",
    )


def _clickhouse(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("path", nargs="?", default="/", metavar="PATH", help="only what is left below this node")
    add(
        "--replica",
        action="append",
        default=[],
        metavar="NAME",
        help="only what replicas of this name have left; may be repeated",
    )
    add(
        "--hours",
        type=values.not_negative,
        default=24,
        metavar="N",
        help="only what nothing has changed for so many hours",
    )
    add(
        "--yes",
        action="store_true",
        help="remove it; replicas only with --replica, since a server that is"
        " stopped for a while looks like one that is gone",
    )
    add_server(parser)


def _kill_session(parser: ArgumentParser) -> None:
    parser.add_argument("session", type=_session_id, metavar="ID", help="its id, as `sessions` prints it")


def _session(parser: ArgumentParser) -> None:
    _kill_session(parser)
    parser.add_argument(
        "--archive",
        type=archive_url,
        metavar="URL",
        help="read the entries of the archive there first: etcd's log has only the newest (docs/archive.md)",
    )


def _session_id(text: str) -> int:
    try:
        number = int(text, 16)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no session's id, such as 0x10000a3b2c40001") from None
    if not 0 <= number < 1 << 64:
        raise ArgumentTypeError(f"{text!r} is no session's id: it has more than 64 bits")
    return number - ((number >> 63) << 64)


def _replay(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--to", type=values.positive, required=True, metavar="POSITION", help="the last position to apply"
    )
    inner = parser.add_subparsers(dest="inner", metavar="COMMAND", required=True, parser_class=Parser)
    for name in ("ls", "get", "stat", "sessions"):
        # A plain parser: one of configargparse's would read the environment and the file again.
        summary, description = COMMANDS[name].summary, description_of(name)
        shown = inner.add_parser(name, help=summary, description=description)
        _ARGUMENTS.get(name, _no_arguments)(shown)


def _log(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tail",
        type=values.positive,
        default=20,
        metavar="N",
        help="number of entries to show, counted from the end",
    )


def _void(parser: ArgumentParser) -> None:
    parser.add_argument(
        "incarnation",
        metavar="INCARNATION",
        help="incarnation that appended the entry, from the proxy's error message",
    )
    parser.add_argument("number", type=values.positive, metavar="NUMBER", help="the entry's number")
    parser.add_argument(
        "--force",
        action="store_true",
        help="do it even while proxies live. A proxy that has already applied the entry then has a different"
        " tree",
    )


def _unseal(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="do not ask the etcd that the tree was moved to. If the tree is served there, or will be,"
        " clients write to two trees, and what one of them has is lost",
    )
    parser.add_argument(
        "--moved-to",
        metavar="FILE",
        help="TOML file of a server of the tree that it was moved to, which has that etcd's addresses, user"
        " and certificates (default: the addresses of the move, and this tree's user and certificates)",
    )


def _raise_level(parser: ArgumentParser) -> None:
    parser.add_argument("level", type=values.positive, metavar="N", help="the new level")


_ARGUMENTS: dict[str, Callable[[ArgumentParser], None]] = {
    "ls": _ls,
    "get": _get,
    "stat": _stat,
    "find-big": _find_big,
    "sessions": _sessions,
    "top": _top,
    "backup": _backup,
    "budget": _budget,
    "clickhouse": _clickhouse,
    "session": _session,
    "kill-session": _kill_session,
    "replay": _replay,
    "log": _log,
    "void": _void,
    "unseal": _unseal,
    "raise-level": _raise_level,
}
