"""`python -m pipeline follow`: a tree in etcd that follows a running ZooKeeper, until the cut-over."""

import argparse
import asyncio
from pathlib import Path

from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.follow.checking import check
from pipeline.follow.inward import Options, follow
from pipeline.follow.output import STUCK, print_progress
from pipeline.follow.tail import Unsettled
from pipeline.formats.errors import TAIL


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
