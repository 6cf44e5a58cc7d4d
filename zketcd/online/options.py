"""The command lines of the commands that act as a client."""

from argparse import ArgumentParser
from collections.abc import Callable

from cli.client import add_server
from cli.commands import parser_of
from proxy.options import values
from schema.znode import MAX_TTL
from zketcd.online.nodes import parsed_acl, parsed_version

MODES = ("persistent", "sequential", "container")


def parser(command: str) -> ArgumentParser:
    """The parser of a command."""
    made = parser_of(command)
    _ARGUMENTS[command](made)
    add_server(made)
    return made


_acl = values.checked(parsed_acl)
_version = values.checked(parsed_version)


@values.checked
def _ttl(text: str) -> int:
    ttl = int(text) if text.isdecimal() and len(text) < 20 else 0
    if not 0 < ttl <= MAX_TTL:
        raise ValueError(f"{text!r} is not a whole number from 1 to {MAX_TTL}, in milliseconds")
    return ttl


def _add_path(made: ArgumentParser) -> None:
    made.add_argument("path", type=values.node_path, metavar="PATH")


def _add_data(made: ArgumentParser, nargs: str | None = None) -> None:
    made.add_argument(
        "data", nargs=nargs, default="", metavar="DATA", help="text; `-` reads standard input, every byte"
    )


def _add_version(made: ArgumentParser) -> None:
    made.add_argument(
        "--if-version",
        type=_version,
        default=-1,
        metavar="N",
        help="only if the node has this version; -1: any",
    )


def _create(made: ArgumentParser) -> None:
    _add_path(made)
    _add_data(made, "?")
    made.add_argument(
        "--mode", choices=MODES, default=MODES[0], help="the kind of node (default: persistent)"
    )
    made.add_argument(
        "--ttl", type=_ttl, default=0, metavar="MS", help="delete it after so many ms without a change"
    )
    made.add_argument("--parents", action="store_true", help="create the nodes above it that are missing")
    made.add_argument(
        "--acl", type=_acl, metavar="ACL", help="SCHEME:ID:PERMISSIONS,...; all to everybody by default"
    )


def _set(made: ArgumentParser) -> None:
    _add_path(made)
    _add_data(made)
    _add_version(made)


def _delete(made: ArgumentParser) -> None:
    _add_path(made)
    _add_version(made)


def _rmr(made: ArgumentParser) -> None:
    _add_path(made)
    made.add_argument("--dry-run", action="store_true", help="print the paths, and delete nothing")


def _bulk_acl(made: ArgumentParser) -> None:
    _add_path(made)
    made.add_argument("-R", "--recursive", action="store_true", help="the nodes below it as well")
    change = made.add_mutually_exclusive_group(required=True)
    change.add_argument("--set", type=_acl, metavar="ACL", help="replace the ACL: SCHEME:ID:PERMISSIONS,...")
    change.add_argument(
        "--add", type=_acl, metavar="ACL", help="add these entries, or replace those of the same SCHEME:ID"
    )
    change.add_argument("--remove", metavar="SCHEME:ID", help="remove the entries of this user")
    made.add_argument("--yes", action="store_true", help="write it; without it the changes are printed")


def _shell(made: ArgumentParser) -> None:
    made.add_argument(
        "words", nargs="*", metavar="WORD", help="one command to run; without it the shell reads commands"
    )


_ARGUMENTS: dict[str, Callable[[ArgumentParser], None]] = {
    "create": _create,
    "set": _set,
    "delete": _delete,
    "rmr": _rmr,
    "acl": _bulk_acl,
    "shell": _shell,
}
