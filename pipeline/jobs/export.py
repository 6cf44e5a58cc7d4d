"""`zketcd export`: an etcd prefix, as of one position, into a ZooKeeper's files or a table.

With --follow it keeps a data directory level with a served tree.

The file's zxid begins a new epoch after all zxids that clients have seen, also of a ZooKeeper that has begun
with an earlier export. So ZooKeeper refuses no client for having seen a newer state, and no zxid is used
twice.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from archive.files.moment import NOW
from pipeline.addresses import ARCHIVE, PARQUET
from pipeline.errors import Failure
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.etcd.read import TreeAt, sessions
from pipeline.folders import check_writable
from pipeline.follow.outward import Options, mirror
from pipeline.job import Runner, Table, Writer
from pipeline.jobs import census
from pipeline.jobs.census import Ending
from pipeline.jobs.summary import print_line, print_list, print_tree
from pipeline.jobs.trees import archived, in_etcd, of_state
from pipeline.running import runner as running
from pipeline.sources import parquet
from pipeline.sources.options import local_path
from pipeline.sources.parquet import ParquetWriter, RemoteParquet
from pipeline.sources.zketcd_tree import ZketcdReader
from pipeline.sources.zookeeper_sink import SinkOptions, ZooKeeperWriter, check_folder, folder_of
from pipeline.table import ZNODES, SessionRow
from schema.zxids import epoch_begun_at

# Options for a single snapshot.
_OF_A_SNAPSHOT = ("keep_sessions", "compression", "dry_run")
_UNBOUNDED = 1 << 62  # bytes: ZooKeeper's own bound is jute.maxbuffer, which the user sets


def run(arguments: argparse.Namespace) -> int:
    """Export; raises NotReadable, Failure and Spark's errors."""
    archive = None if arguments.archive is None else f"{ARCHIVE}{arguments.archive}"
    if archive is None and arguments.at != NOW:
        raise Failure("--at needs --archive: etcd has one state")
    if arguments.follow:
        if arguments.archive is not None:
            raise Failure("--follow exports the tree in etcd: --archive has no future")
        return _follow(Connection.from_arguments(arguments), arguments)
    if arguments.until_level or arguments.timeout is not None:
        raise Failure("--until-level and --timeout go with --follow")
    _check(arguments.target)
    if arguments.compression and arguments.target.startswith(PARQUET):
        raise Failure("--compression is for ZooKeeper's snapshots: Parquet has its own")
    connection = Connection.from_arguments(arguments) if archive is None else Connection("")
    remote = _remote(arguments.target)
    target = [] if remote is None else [Table(remote)]
    if archive is None:
        znodes = asyncio.run(in_etcd(connection))
    else:
        znodes = of_state(archived(archive, arguments.at))
    runner = running.runner_for(arguments, "zketcd export", [znodes, *target])
    assert isinstance(znodes.reader, ZketcdReader)
    seen = znodes.reader.seen
    where = (
        f"{connection.prefix} at position {seen.position}"
        if archive is None
        else f"{archive} at {arguments.at}"
    )
    print_line(f"source: {where}, last zxid 0x{seen.last_zxid:x}")
    if seen.proxies:
        print_line(
            f"source: {seen.proxies} zketcd serve it: what clients write from now on is not in the export"
        )
    carried = asyncio.run(_derived(connection, seen)) if arguments.keep_sessions else ()
    counted = census.take(runner, znodes, _UNBOUNDED, [row.id for row in carried], arguments.listed)
    print_tree(counted, len(carried), arguments.listed)
    if counted.kinds["ttl"]:
        print_line(
            "TTL nodes: a ZooKeeper without zookeeper.extendedTypesEnabled=true deletes them when it starts"
        )
    if counted.obstacle_count:
        print_line(f"refused: {counted.obstacle_count} znodes that ZooKeeper cannot store")
        print_list("refused", (f"{path!r}: {reason}" for path, reason in counted.obstacles), arguments.listed)
        return 1
    zxid = epoch_begun_at(time.time(), max(seen.last_zxid, counted.max_zxid))
    if arguments.dry_run:
        print_line("dry run: nothing was written")
        return 0
    _write(runner, znodes, arguments, Ending(counted.dropped, zxid), carried, zxid)
    nodes = counted.nodes - counted.dropped.nodes
    print_line(f"exported: {nodes} znodes to {arguments.target}, zxids continue at 0x{zxid:x}")
    return 0


def _check(target: str) -> None:
    """Raises Failure if the export cannot be written, before anything is read."""
    try:
        if not target.startswith(PARQUET):
            if not target or "://" in target:
                raise Failure(f"{target!r} is neither a directory nor {PARQUET}DIRECTORY")
            check_folder(folder_of(target))
        elif (path := parquet.local_path(target)) is not None:
            parquet.check_target(path)
    except (ValueError, OSError) as error:
        raise Failure(str(error)) from None


def _remote(target: str) -> RemoteParquet | None:
    """The target, if it is Parquet at a URL."""
    if not target.startswith(PARQUET) or parquet.local_path(target) is not None:
        return None
    return RemoteParquet(target.removeprefix(PARQUET))


def _write(
    runner: Runner,
    znodes: Table,
    arguments: argparse.Namespace,
    ending: Ending,
    carried: tuple[SessionRow, ...],
    zxid: int,
) -> None:
    remote = _remote(arguments.target)
    if remote is not None:
        from pipeline.running.spark import BySpark
        from pipeline.sources import spark_parquet

        assert isinstance(runner, BySpark)
        with runner.reporter.step("write"):
            spark_parquet.write(runner.spark, znodes.reader, ending, remote)
        return
    writer = _writer(arguments, carried, zxid)

    def write(batches: Iterator[pa.RecordBatch]) -> Any:
        return writer.write(ending(batches))

    try:
        writer.commit(runner.each("write", znodes, write))
    finally:
        writer.abort()


def _writer(arguments: argparse.Namespace, carried: tuple[SessionRow, ...], zxid: int) -> Writer:
    target: str = arguments.target
    path = parquet.local_path(target) if target.startswith(PARQUET) else None
    if path is not None:
        return ParquetWriter(path)
    folder, codec = folder_of(local_path(target)), arguments.compression or ""
    options = SinkOptions(folder, zxid, carried, arguments.trailer, codec, False)
    return ZooKeeperWriter(options, ZNODES.names)


async def _derived(connection: Connection, seen: TreeAt) -> tuple[SessionRow, ...]:
    """The sessions that came from a ZooKeeper."""
    if seen.changed is not None:  # of an archive, or after a replay
        found = sorted(seen.changed.sessions)
    else:
        async with connection.client() as etcd:
            found = await sessions(etcd, connection.keys, seen)
    return tuple(held.row for held in found if held.derived)


def _follow(connection: Connection, arguments: argparse.Namespace) -> int:
    """Returns 0: level, as requested; 3: not in time. Raises Failure, EtcdError, OSError."""
    if arguments.target.startswith(PARQUET):
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

    async def follow() -> int:
        async with reached(connection) as etcd:
            return await mirror(etcd, connection.keys, options)

    return asyncio.run(follow())
