"""`python -m pipeline follow`: a tree in etcd that follows a running ZooKeeper, until the cut-over."""

import argparse
import asyncio
from pathlib import Path

from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.options import add_arguments as add_etcd_arguments
from pipeline.etcd.reach import reached
from pipeline.follow.checking import check
from pipeline.follow.inward import STUCK, Options, follow
from pipeline.follow.output import print_progress
from pipeline.follow.tail import Unsettled
from pipeline.formats.directory import TAIL
from pipeline.jobs.arguments import add_max_request_bytes, add_metrics_argument, seconds, zxid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    add(
        "source",
        help="the data directory (dataDir) of one member of the running ensemble, or a copy that grows"
        " with it",
    )
    add_etcd_arguments(parser)
    add("--data-log-dir", metavar="DIR", help="the member's dataLogDir, if it has one")
    add("--overwrite", action="store_true", help="delete everything under the prefix, and start over")
    add("--until-level", action="store_true", help="end when the tree is level with the log")
    add(
        "--finish",
        action="store_true",
        help="the cut-over: when the tree is level, complete it, so that zketcd serves it. A follower"
        " that runs"
        " on the prefix does this and ends; otherwise this command follows up to there",
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
        " copy that"
        " may lag behind",
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
        "--patience",
        type=seconds,
        default=Options._field_defaults["patience"],
        metavar="SECONDS",
        help="how long the log may be incomplete, while a copy is made, before this is an error"
        " (default: 30)",
    )
    add(
        "--repair",
        choices=(TAIL,),
        help="tail: take the newest log as complete up to its first damage, which a killed server leaves",
    )
    add_metrics_argument(parser)
    add_max_request_bytes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0: level or finished, as requested; 1: the log does not continue; 3: not level in time."""
    connection = Connection.from_arguments(arguments)
    if not Path(arguments.source).is_dir():
        raise Failure(f"{arguments.source} is no directory")
    if arguments.check:
        for name in ("overwrite", "until_level", "finish", "zxid", "keep_sessions", "timeout", "metrics"):
            if getattr(arguments, name):
                raise Failure(f"--{name.replace('_', '-')} does not go with --check")
        return asyncio.run(_check(connection, arguments))
    if arguments.timeout is not None and not (arguments.until_level or arguments.finish):
        raise Failure("--timeout goes with --until-level or --finish")
    options = Options(
        arguments.source,
        arguments.data_log_dir,
        arguments.overwrite,
        arguments.until_level,
        arguments.finish,
        arguments.keep_sessions,
        arguments.zxid,
        arguments.timeout,
        arguments.patience,
        torn=arguments.repair == TAIL,
        limits=Limits(max_request_bytes=arguments.max_request_bytes),
        metrics=arguments.metrics,
    )
    try:
        return asyncio.run(_follow(connection, options))
    except Unsettled as error:
        print_progress(f"python -m pipeline: {error}")
        return STUCK


async def _follow(connection: Connection, options: Options) -> int:
    async with reached(connection) as etcd:
        return await follow(etcd, connection.keys, options)


async def _check(connection: Connection, arguments: argparse.Namespace) -> int:
    async with reached(connection) as etcd:
        return await check(etcd, connection.keys, arguments.source, arguments.data_log_dir)
