"""`zketcd import`: a ZooKeeper's tree into an etcd prefix, completely or not at all.

It surveys the source, refuses trees that cannot be imported, loads under the fence, and publishes. No proxy
serves the tree before the last step. A command that failed or was killed can be run again.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.errors import Failure
from pipeline.etcd import load
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load
from pipeline.etcd.options import Connection
from pipeline.etcd.publish import needs_files, publish
from pipeline.etcd.reach import reached
from pipeline.etcd.room import Room, room_of
from pipeline.etcd.writer import Part
from pipeline.folders import check_writable
from pipeline.job import Runner, Table
from pipeline.jobs import census
from pipeline.jobs.census import Census, Ending
from pipeline.jobs.summary import print_line, print_list, print_tree
from pipeline.jobs.trees import Origin, origin_of
from pipeline.options import check_trees
from pipeline.progress import Reporter
from pipeline.running import runner as running
from pipeline.sources.zketcd_tree import write_part
from pipeline.table import SessionRow
from schema.zxids import epoch_begun_at, next_epoch


def run(arguments: argparse.Namespace) -> int:
    """Import; returns 1 if there are obstacles. Raises Failure, LoadRefused and what `origin_of` does."""
    check_trees(arguments, arguments.source)
    connection = Connection.from_arguments(arguments)
    limits = Limits(arguments.max_txn_ops, arguments.max_request_bytes)
    refusal = asyncio.run(_target_refusal(connection, overwrite=arguments.overwrite))
    if refusal and not arguments.dry_run:
        raise Failure(refusal)
    reporter = Reporter.of(arguments)
    with origin_of(arguments, reporter) as found:
        if arguments.keep_sessions and found.sessions is None:
            raise Failure(
                "--keep-sessions: this source has no sessions; directories and 3.9's admin server have them"
            )
        runner = running.runner_for(arguments, "zketcd import", [found.znodes])
        for note in found.notes:
            print_line(f"source: {note}")
        carried = (found.sessions or ()) if arguments.keep_sessions else ()
        moving = [row.id for row in carried]
        counted = census.take(runner, found.znodes, limits.max_request_bytes, moving, arguments.listed)
        print_tree(counted, len(carried), arguments.listed)
        _print_digest(found, counted)
        last_zxid = max(found.last_zxid, counted.max_zxid)
        if counted.roots != 1:
            raise Failure(f"the source has {counted.roots} rows for /, not one: it is not a complete tree")
        next_epoch(last_zxid)  # raises if there is none, before the target is changed
        if _has_obstacles(found, counted, arguments):
            return 1
        if counted.fault is not None:
            raise Failure(counted.fault)
        if arguments.dry_run:
            print_line("dry run: nothing was written")
            if refusal:
                raise Failure(refusal)
            _check_etcd(asyncio.run(room_of(connection)), counted.page_bytes)
            print_line("target: free")
            return 0
        room = asyncio.run(room_of(connection))
        _check_etcd(room, counted.page_bytes)
        if needs_files(counted.nodes):
            _check_room(arguments.work_dir)
        begun = asyncio.run(_begin(connection, reporter, overwrite=arguments.overwrite))
        zxid = epoch_begun_at(time.time(), max(last_zxid, begun.zxid))
        parts = _load(runner, connection, limits, found.znodes, begun, Ending(counted.dropped, zxid), room)
    nodes = counted.nodes - counted.dropped.nodes
    written = sum(part.nodes for part in parts)
    if written != nodes:
        raise Failure(f"the source had {nodes} znodes, but {written} were written. Not published")
    asyncio.run(_publish(connection, limits, begun, parts, zxid, carried, arguments.work_dir))
    print_line(f"imported: {nodes} znodes under {connection.prefix}, zxids continue at 0x{zxid:x}")
    return 0


def _print_digest(found: Origin, counted: Census) -> None:
    if found.digest is None:
        print_line("digest: the source has none, so it cannot be compared")
    else:
        print_line(f"digest: {'equal' if found.digest in counted.digests else 'DIFFERENT'}")


def _has_obstacles(found: Origin, counted: Census, arguments: argparse.Namespace) -> bool:
    """Print the obstacles to the import; returns whether there are any."""
    if counted.obstacle_count:
        print_line(f"refused: {counted.obstacle_count} znodes that zketcd cannot store")
        print_list("refused", (f"{path!r}: {reason}" for path, reason in counted.obstacles), arguments.listed)
    different = found.digest is not None and found.digest not in counted.digests
    if different:
        print_line(
            "refused: the tree's digest differs from the one that ZooKeeper wrote: the copy is not the same"
            " tree"
            " (--accept-changes imports it anyway)"
        )
    ahead = 0 < found.last_zxid < counted.max_zxid
    if ahead:
        print_line(
            f"refused: a znode has zxid 0x{counted.max_zxid:x}, and the source ends at 0x{found.last_zxid:x}:"
            " its snapshot was written amid transactions whose logs are missing, so this tree never existed"
            " (--accept-changes imports it anyway)"
        )
    return bool(counted.obstacle_count or ((different or ahead) and not arguments.accept_changes))


def _check_etcd(room: Room | None, page_bytes: int) -> None:
    """Print what room etcd has for the tree, if it shows it. Raises LoadRefused if not enough."""
    if room is not None:
        print_line(f"etcd: {room.check(page_bytes)}")


def _check_room(work_dir: str | None) -> None:
    """Raises Failure where no temporary file can be made: at the end of an import the old tree is gone."""
    try:
        check_writable(Path(work_dir or tempfile.gettempdir()))
    except (OSError, ValueError) as error:
        raise Failure(
            f"a tree of this size needs temporary files: {error}. Set --work-dir or TMPDIR"
        ) from None


def _load(
    runner: Runner,
    connection: Connection,
    limits: Limits,
    znodes: Table,
    begun: Load,
    ending: Ending,
    room: Room | None,
) -> list[Part]:
    """Write all znodes that move."""

    def write(batches: Iterator[pa.RecordBatch]) -> Part:
        return write_part(connection, begun, limits, ending(batches), room)

    return runner.each("load", znodes, write)


async def _target_refusal(connection: Connection, *, overwrite: bool) -> str | None:
    """Why a load cannot begin now; None if it can."""
    async with reached(connection) as etcd:
        return load.refusal(await load.target_of(etcd, connection.keys), connection.keys, overwrite=overwrite)


async def _begin(connection: Connection, reporter: Reporter, *, overwrite: bool) -> Load:
    async with connection.client() as etcd:
        return await load.begin(etcd, connection.keys, overwrite=overwrite, progress=reporter.message)


async def _publish(
    connection: Connection,
    limits: Limits,
    begun: Load,
    parts: Sequence[Part],
    zxid: int,
    carried: Sequence[SessionRow],
    folder: str | None,
) -> None:
    """Publish the tree, so that proxies serve it."""
    async with connection.client() as etcd:
        await publish(etcd, connection.keys, begun, parts, zxid, carried, limits, folder)
