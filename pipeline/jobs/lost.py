"""`zketcd lost`: what a lost source has, and its copy, which serves now, has not."""

import argparse
import asyncio

from archive.files.catalog import ArchiveError
from cli.output import show
from pipeline.errors import Failure
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.follow.lost import list_lost
from pipeline.jobs.follow import source_of
from proxy.log.record import TreeNotServable


def run(arguments: argparse.Namespace) -> int:
    """Returns 0. Raises Failure, EtcdError."""
    connection = Connection.from_arguments(arguments)

    async def listed() -> None:
        async with reached(connection) as etcd, source_of(connection, etcd, arguments) as source:
            try:
                await list_lost(source, etcd, connection.keys, show)
            except (TreeNotServable, ArchiveError) as error:
                raise Failure(f"{source.name}: {error}") from error

    asyncio.run(listed())
    return 0
