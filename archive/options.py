"""The command lines of the commands on an archive."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from archive.files.moment import Moment, moment
from cli.client import add_server
from cli.commands import description_of, parser_of
from cli.connection import connecting_parser
from proxy.options.archive import archive_url, duration
from proxy.options.values import checked, node_path
from proxy.support.environment import clock_ms
from proxy.support.usage import output_file


def parser(command: str) -> Any:
    """The parser of a command."""
    description = f"{_WORDS.get(command) or description_of(command)} docs/archive.md has examples."
    made = (connecting_parser if command in _NEED_ETCD else parser_of)(command, description)
    _ARGUMENTS[command](made)
    return made


@checked
def at(text: str) -> Moment:
    """A moment, for argparse."""
    return moment(text, clock_ms())


def add_archive(made: ArgumentParser) -> None:
    """The option that names the archive."""
    made.add_argument(
        "--archive",
        type=archive_url,
        required=True,
        metavar="URL",
        help="the archive: a directory such as ./archive, or s3://BUCKET/PATH",
    )


def _archive(made: ArgumentParser) -> None:
    add = made.add_argument
    add(
        "url",
        type=archive_url,
        metavar="URL",
        help="a directory such as ./archive, or s3://BUCKET/PATH; or a word: list, verify",
    )
    add(
        "--keep",
        type=duration,
        default=0,
        metavar="DURATION",
        help="delete what is older, such as 30d; nothing by default",
    )
    add(
        "--accept-cluster",
        action="store_true",
        help="continue although the archive's tree was in another etcd cluster, or under another prefix",
    )
    add(
        "--metrics",
        type=output_file,
        metavar="FILE",
        help="write metrics to FILE about once a second, for node_exporter's textfile collector",
    )


def _inspection(made: ArgumentParser) -> None:
    made.add_argument("url", type=archive_url, metavar="URL", help="the archive")
    made.add_argument("--json", action="store_true", help="print JSON instead of text")


def _history(made: ArgumentParser) -> None:
    add = made.add_argument
    add("path", type=node_path, metavar="PATH")
    add_archive(made)
    add("--since", type=at, metavar="MOMENT", help="leave out what is older: a time, a zxid, a position, 10m")
    add("--until", type=at, metavar="MOMENT", help="leave out what is newer")
    add("-R", "--recursive", action="store_true", help="the nodes below it as well")
    add("--deleted", action="store_true", help="only deletions: who deleted it?")
    add("--data", action="store_true", help="show the data that were written")
    add("--json", action="store_true", help="print a JSON object a line instead of text")


def _diff(made: ArgumentParser) -> None:
    add = made.add_argument
    add("before", type=at, metavar="MOMENT", help="a time (UTC), a zxid (0x...), a position, or how long ago")
    add("after", type=at, metavar="MOMENT", help="another one; `now` is the tree in etcd")
    add(
        "path",
        nargs="?",
        type=node_path,
        default="/",
        metavar="PATH",
        help="only this node and those below it",
    )
    add_archive(made)
    add("--json", action="store_true", help="print a JSON object a line instead of text")


def _revert(made: ArgumentParser) -> None:
    add = made.add_argument
    add("path", type=node_path, metavar="PATH", help="the node to bring back, with all below it")
    to = made.add_mutually_exclusive_group(required=True)
    to.add_argument("--to", type=at, metavar="MOMENT", help="the moment to bring it back to")
    to.add_argument(
        "--undelete",
        action="store_true",
        help="bring back what was deleted with it the last time: find the moment before the first delete",
    )
    add_archive(made)
    add(
        "--until",
        type=at,
        metavar="MOMENT",
        help="undo what has changed up to this moment; later changes are conflicts. Without it only"
        " deletions are undone, and all other changes are conflicts",
    )
    add("--force", action="store_true", help="revert conflicts as well")
    add("--yes", action="store_true", help="write it; without it the plan is printed")
    add_server(made)
    add("--json", action="store_true", help="print a JSON object a line instead of text")


#: `zketcd archive` with a word before the URL.
_WORDS = {
    "archive list": "Show what an archive has, and its gaps.",
    "archive verify": "Read a whole archive, and check that each snapshot and its segments make the next.",
}
_NEED_ETCD = ("archive", "diff", "revert")
_ARGUMENTS: dict[str, Callable[[ArgumentParser], None]] = {
    "archive": _archive,
    "archive list": _inspection,
    "archive verify": _inspection,
    "diff": _diff,
    "history": _history,
    "revert": _revert,
}
