"""`python -m pipeline export`: an etcd prefix, as of one position, back into a ZooKeeper's files or a table.

The file's zxid begins the epoch after all that clients have seen: ZooKeeper refuses no client for having seen
a newer state, and no zxid is given twice.
"""

import argparse
import asyncio
import json
from typing import NamedTuple

from pyspark.sql import DataFrame

from pipeline.errors import Failure
from pipeline.etcd import load
from pipeline.etcd.options import Connection
from pipeline.etcd.options import add_arguments as add_etcd_arguments
from pipeline.etcd.read import Session, Survey, sessions
from pipeline.etcd.settle import settled
from pipeline.jobs import census
from pipeline.jobs.ephemerals import Ending, Kept, kept_of
from pipeline.jobs.progress import told
from pipeline.jobs.rows import Rows
from pipeline.jobs.summary import add_list_argument, say, say_each, say_tree
from pipeline.sources.spark import struct_of
from pipeline.sources.zketcd import ZketcdSource, survey_option
from pipeline.sources.zookeeper_sink import check_folder, folder_of
from pipeline.spark import session
from pipeline.table import ZNODES

_PARQUET = "parquet:"
_UNBOUNDED = 1 << 62  # bytes: ZooKeeper's own bound is jute.maxbuffer, which is the user's


class Prefix(NamedTuple):
    """What is to be exported."""

    seen: Survey
    sessions: list[Session]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    add("target", help="a directory for ZooKeeper (dataDir), without snapshots or logs, or parquet:DIRECTORY")
    add_etcd_arguments(parser)
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
    add("--dry-run", action="store_true", help="print what would be done, and write nothing")
    add_list_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export; raises NotReadable, Failure and Spark's errors."""
    if not arguments.target.startswith(_PARQUET):
        _check(arguments.target)
    connection = Connection.from_arguments(arguments)
    found = asyncio.run(_look(connection))
    seen = found.seen
    say(f"source: {connection.prefix} at position {seen.snapshot.position}, last zxid 0x{seen.last_zxid:x}")
    if seen.proxies:
        say(f"source: {seen.proxies} zketcd serve it: what clients write from now on is not in the export")
    spark = session("zketcd export")
    options = {**connection.options(), "snapshot": survey_option(seen)}
    znodes = spark.read.format("zketcd").options(**options).load()
    rows = Rows(spark, znodes, ZketcdSource(options).reader(struct_of(ZNODES)))
    with told(spark, "survey"):
        counted = census.take(rows, _UNBOUNDED)
    derived = [held.row for held in found.sessions if held.derived]
    kept = kept_of(counted, derived if arguments.keep_sessions else ())
    say_tree(counted, kept, arguments.listed)
    if counted.kinds["ttl"]:
        say("TTL nodes: a ZooKeeper without zookeeper.extendedTypesEnabled=true deletes them when it starts")
    if counted.obstacle_count:
        say(f"refused: {counted.obstacle_count} znodes that ZooKeeper cannot store")
        say_each("refused", (f"{path!r}: {reason}" for path, reason in counted.obstacles), arguments.listed)
        return 1
    zxid = load.first_zxid(max(seen.last_zxid, counted.max_zxid))
    if arguments.dry_run:
        say("dry run: nothing was written")
        return 0
    with told(spark, "write"):
        _write(znodes.mapInArrow(Ending(kept, zxid), struct_of(ZNODES)), arguments, kept, zxid)
    nodes = counted.nodes - len(kept.dropped_paths)
    say(f"exported: {nodes} znodes to {arguments.target}, zxids continue at 0x{zxid:x}")
    return 0


def _check(target: str) -> None:
    """Raises Failure where the export could not be written, before anything is read."""
    try:
        check_folder(folder_of(target))
    except (ValueError, OSError) as error:
        raise Failure(str(error)) from None


def _write(tree: DataFrame, arguments: argparse.Namespace, kept: Kept, zxid: int) -> None:
    target: str = arguments.target
    if target.startswith(_PARQUET):
        tree.write.parquet(target.removeprefix(_PARQUET))
        return
    options = {
        "zxid": str(zxid),
        "sessions": json.dumps([list(row) for row in kept.sessions]),
        "trailer": arguments.trailer,
    }
    if arguments.compression:
        options["compression"] = arguments.compression
    tree.write.format("zookeeper").options(**options).mode("append").save(target)


async def _look(connection: Connection) -> Prefix:
    keys = connection.keys
    async with connection.client() as etcd:
        seen = await settled(etcd, keys)
        return Prefix(seen, await sessions(etcd, keys, seen))
