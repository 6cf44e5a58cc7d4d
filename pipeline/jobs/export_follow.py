"""`python -m pipeline export --follow`: a data directory that stays level with a served tree."""

import argparse
import asyncio
from pathlib import Path

from pipeline.errors import Failure
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.folders import check_writable
from pipeline.follow.outward import Options, mirror
from pipeline.jobs.arguments import add_metrics_argument, seconds

_PARQUET = "parquet:"
# Options for a single snapshot, and their defaults.
_OF_A_SNAPSHOT = ("keep_sessions", "compression", "dry_run")


def add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of an export that continues."""
    add = parser.add_argument
    add(
        "--follow",
        action="store_true",
        help="keep the directory level with what clients write, with all sessions, until interrupted: a"
        " snapshot"
        " and transaction logs on which a ZooKeeper can be started at any time",
    )
    add("--until-level", action="store_true", help="with --follow: end when the directory is level")
    add(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="with --until-level: end with exit code 3 if not level by then",
    )
    add_metrics_argument(parser)


def follow(connection: Connection, arguments: argparse.Namespace) -> int:
    """Returns 0: level, as requested; 3: not in time. Raises Failure, EtcdError, OSError."""
    if arguments.target.startswith(_PARQUET):
        raise Failure("--follow writes a directory for ZooKeeper, not a table")
    if arguments.timeout is not None and not arguments.until_level:
        raise Failure("--timeout goes with --until-level")
    for name in _OF_A_SNAPSHOT:
        if getattr(arguments, name):
            raise Failure(f"--{name.replace('_', '-')} does not go with --follow")
    try:
        check_writable(Path(arguments.target))
    except ValueError as error:
        raise Failure(str(error)) from error
    options = Options(arguments.target, arguments.until_level, arguments.timeout, metrics=arguments.metrics)
    return asyncio.run(_follow(connection, options))


async def _follow(connection: Connection, options: Options) -> int:
    async with reached(connection) as etcd:
        return await mirror(etcd, connection.keys, options)
