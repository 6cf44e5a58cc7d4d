"""The command lines of all commands.

This module and what it imports need none of the pipeline's libraries: every command prints its help without
numpy and pyarrow.
"""

import argparse
import contextlib
from collections.abc import Callable

from archive.files.moment import NOW
from archive.options import at
from cli.connection import configured_parser
from pipeline.addresses import ARCHIVE, PARQUET, Identity, is_in_etcd
from pipeline.errors import Failure
from pipeline.formats.errors import REPAIRS, TAIL
from proxy.etcd.model import DEFAULT_MAX_REQUEST_BYTES, DEFAULT_MAX_TXN_OPS
from proxy.options.values import checked, identity, not_negative, positive, standby

#: Above either, Spark runs a job unless --no-spark is given.
MOST_ROWS = 10_000_000
MOST_BYTES = 4 << 30

_LISTED = 50
_A_TREE = (
    "a ZooKeeper directory, parquet:DIRECTORY, zk://HOST:PORT, etcd://HOST:PORT/PREFIX,"
    " config:FILE (the tree of a server with this TOML file)"
)


# -- values --------------------------------------------------------------------------------------------------


def seconds(text: str) -> float:
    """A duration, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


@checked
def zxid(text: str) -> int:
    """A zxid, for argparse: hexadecimal with 0x, or decimal."""
    with contextlib.suppress(ValueError):
        if 0 <= (found := int(text, 0)) < 1 << 63:
            return found
    raise ValueError(f"{text!r} is no zxid, such as 0x500000123")


def _identity(text: str) -> Identity:
    return Identity(*identity(text))


# -- options that several commands have ----------------------------------------------------------------------


def _add_directory(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data-log-dir", metavar="DIR", help="ZooKeeper's dataLogDir, if its logs lie elsewhere")
    add("--snapshot", metavar="NAME", help="start from this snapshot instead of the newest valid one")
    add(
        "--repair",
        default="",
        metavar="WHAT",
        help=f"damage of files to accept, separated by commas: {', '.join(sorted(REPAIRS))}",
    )


def _add_moment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        type=at,
        default="now",
        metavar="MOMENT",
        help=f"the moment of {ARCHIVE}URL: a time (UTC), a zxid (0x...), a position, or how long ago (10m)",
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """The options for reading a tree of a ZooKeeper or of an archive."""
    _add_directory(parser)
    _add_moment(parser)
    parser.add_argument(
        "--auth",
        type=_identity,
        action="append",
        default=[],
        metavar="SCHEME:ID",
        help="identity for a running ensemble, e.g. digest:user:password; may be repeated",
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=f"run on Spark, or never (--no-spark); by default above about {MOST_ROWS} znodes or"
        f" {MOST_BYTES >> 30} GiB",
    )


def _add_writing(parser: argparse.ArgumentParser) -> None:
    """Whether the job writes, how much of the result is printed, what runs it, the form of the progress."""
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")
    parser.add_argument(
        "--list",
        dest="listed",
        type=not_negative,
        default=_LISTED,
        metavar="N",
        help="number of paths to print of each kind",
    )
    _add_spark(parser)
    parser.add_argument("--json", action="store_true", help="print the progress as lines of JSON, on stderr")


def _add_metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics",
        metavar="FILE",
        help="write to FILE when the copy was last level, about once a second, for node_exporter's textfile"
        " collector",
    )


def _add_max_request_bytes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-request-bytes",
        type=positive,
        default=DEFAULT_MAX_REQUEST_BYTES,
        help="etcd's own --max-request-bytes",
    )


# -- the commands --------------------------------------------------------------------------------------------


def _import(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "source",
        help="a data directory of ZooKeeper, parquet:DIRECTORY, zk://HOST:PORT[,HOST:PORT] (a walk over a"
        " running ensemble), http://HOST:PORT (the admin server of a running 3.9) or archive:URL (zketcd's)",
    )
    _add_reading(parser)
    add(
        "--accept-changes",
        action="store_true",
        help="continue although the digest differs or a running ensemble was written to: for rehearsals",
    )
    add("--work-dir", metavar="DIR", help="directory for temporary files (default: TMPDIR)")
    add(
        "--keep-sessions",
        action="store_true",
        help="import sessions and their ephemerals as well; clients that reconnect in time continue them",
    )
    add("--overwrite", action="store_true", help="delete the tree under the prefix before importing")
    _add_writing(parser)
    add("--max-txn-ops", type=positive, default=DEFAULT_MAX_TXN_OPS, help="etcd's own --max-txn-ops")
    _add_max_request_bytes(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", help="a directory for ZooKeeper (dataDir), without snapshots or logs, or parquet:DIRECTORY")
    add("--archive", metavar="URL", help="export a moment of this archive instead of the tree in etcd")
    _add_moment(parser)
    add(
        "--keep-sessions",
        action="store_true",
        help="export the sessions that came from a ZooKeeper, with their ephemerals",
    )
    add("--compression", choices=("gz", "snappy"), help="compress the snapshot")
    add(
        "--trailer",
        choices=("seal", "digest", "full"),
        default="seal",
        help="what follows the nodes: every server accepts seal (default); 3.9's restore needs full",
    )
    _add_writing(parser)
    add(
        "--follow",
        action="store_true",
        help="keep the directory level with what clients write, with all sessions, until interrupted: a"
        " snapshot and transaction logs on which a ZooKeeper can be started at any time",
    )
    add("--until-level", action="store_true", help="with --follow: end when the directory is level")
    add(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="with --until-level: end with exit code 3 if not level by then",
    )
    _add_metrics(parser)


def _follow(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "source",
        help="the data directory (dataDir) of one member of the running ensemble, or a copy that grows"
        " with it; or another zketcd: config:FILE (its server's TOML file), etcd://HOST:PORT/PREFIX (with the"
        " same options of access as --etcd), or archive:URL",
    )
    add("--data-log-dir", metavar="DIR", help="the member's dataLogDir, if it has one")
    add("--overwrite", action="store_true", help="delete the tree under the prefix, and start over")
    add("--until-level", action="store_true", help="end when the tree is level with the source")
    add(
        "--finish",
        action="store_true",
        help="the cut-over: when the tree is level, complete it, so that zketcd serves it; another zketcd is"
        " sealed first. A follower that runs on the prefix does this and ends; otherwise this command follows"
        " up to there",
    )
    add(
        "--source-lost",
        action="store_true",
        help="with --finish, for another zketcd that is gone: complete the tree as it is, without sessions"
        " and in a new epoch of zxids; then wait until the source can be reached, and seal it. Stops a"
        " follower that runs. Refused while the source's etcd answers",
    )
    add("--force", action="store_true", help="with --source-lost: although the source's etcd answers")
    add(
        "--standby-within",
        type=standby,
        default=0,
        metavar="SECONDS",
        help="show the proxies of a source in etcd that this follower lives, for those that run with"
        " --standby-within of at most so many seconds; --source-lost then waits for as long, until they do"
        " not answer any more",
    )
    add(
        "--check",
        action="store_true",
        help="compare the tree in etcd with the source, field by field, at the zxid that it has come to, and"
        " end; a follower may run meanwhile, and clients may write. Exit code 1: they differ",
    )
    add(
        "--zxid",
        type=zxid,
        default=0,
        metavar="ZXID",
        help="with --until-level or --finish: be level with at least this zxid (what srvr shows), for a"
        " copy that may lag behind",
    )
    add(
        "--keep-sessions",
        action="store_true",
        help="with --finish: sessions and their ephemerals live on; clients that reconnect in time"
        " continue them",
    )
    add(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="with --until-level or --finish: end with exit code 3 if not level by then",
    )
    add(
        "--log-timeout",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long the log may be incomplete, while a copy is made, before this is an error",
    )
    add(
        "--repair",
        choices=(TAIL,),
        help="tail: take the newest log as complete up to its first damage, which a killed server leaves",
    )
    _add_metrics(parser)
    _add_max_request_bytes(parser)


def _lost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        help="what was lost: config:FILE, etcd://HOST:PORT/PREFIX, or archive:URL that it has written",
    )


def _verify(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("left", help=f"one tree: {_A_TREE} or archive:URL")
    add("right", help="the other tree")
    _add_reading(parser)
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="PATH",
        help="leave out this node and all nodes below it, on both sides; may be repeated",
    )
    add(
        "--without-ephemerals",
        action="store_true",
        help="leave out ephemerals, on both sides: an import without --keep-sessions drops them",
    )
    add(
        "--samples",
        type=not_negative,
        default=10,
        metavar="N",
        help="number of nodes to show of each kind of difference",
    )
    _add_spark(parser)
    add("--json", action="store_true", help="print the result as JSON, and the progress on stderr")


def _inspect(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("tree", help=f"{_A_TREE}, archive:URL")
    _add_reading(parser)
    add("--top", type=not_negative, default=10, metavar="N", help="lines of each list")
    add("--depth", type=positive, default=3, metavar="N", help="number of names in a path prefix")
    add("--no-logs", action="store_true", help="leave out the statistics of a directory's logs")
    _add_spark(parser)
    add("--json", action="store_true", help="print the report as JSON, and the progress on stderr")
    add(
        "--traffic",
        action="store_true",
        help="report what clients wrote: of etcd://HOST:PORT/PREFIX or a ZooKeeper directory the requests in"
        " the log; of archive:URL the log that an archive keeps; of parquet:DIRECTORY the table of traffic"
        " that a stream has written",
    )
    for name, which in (("since", "from"), ("until", "up to")):
        add(
            f"--{name}",
            metavar="TIME",
            help=f"with --traffic archive:URL: requests {which} this time (UTC), or so long ago (10m, 3d)",
        )
    add(
        "--budget",
        action="append",
        default=[],
        metavar="BUDGET",
        help="with --traffic: report what this budget, such as /app=500/s,10MB/s, would have refused; may be"
        " given several times",
    )
    add(
        "--report",
        metavar="FILE",
        help="with --traffic: write a page with figures (FILE.html) or the figures alone (FILE.png)",
    )


#: The commands that write or read the tree of --etcd and --prefix.
OF_ONE_TREE = ("import", "export", "follow", "lost")
ADD_ARGUMENTS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "import": _import,
    "export": _export,
    "follow": _follow,
    "lost": _lost,
    "verify": _verify,
    "inspect": _inspect,
}


# -- options that do not fit the trees -----------------------------------------------------------------------


def check_trees(arguments: argparse.Namespace, *trees: str) -> None:
    """Raises Failure for an option that none of the trees uses, or a --repair that is not in REPAIRS."""
    if arguments.at != NOW and not any(tree.startswith(ARCHIVE) for tree in trees):
        raise Failure(f"--at goes with {ARCHIVE}URL: etcd and files have one state")
    if all(tree.startswith((PARQUET, ARCHIVE)) or "://" in tree for tree in trees):
        for option, value in (
            ("--data-log-dir", arguments.data_log_dir),
            ("--snapshot", arguments.snapshot),
            ("--repair", arguments.repair),
        ):
            if value:
                raise Failure(f"{option} is for data directories: {', '.join(trees)} is none")
    if not hasattr(arguments, "etcd") and not any(map(is_in_etcd, trees)):  # import has --etcd as well
        file = [] if arguments.config is None else ["--config", arguments.config]
        unset = configured_parser("verify").parse_args(file)
        for dest, value in vars(unset).items():
            if getattr(arguments, dest) != value:
                name = dest.replace("_", "-")
                raise Failure(f"--{name} is for etcd:// and etcds://: {', '.join(trees)} is none")
    unknown = frozenset(filter(None, arguments.repair.split(","))) - REPAIRS
    if unknown:
        raise Failure(f"--repair is of {', '.join(sorted(REPAIRS))}, not {', '.join(sorted(unknown))}")
