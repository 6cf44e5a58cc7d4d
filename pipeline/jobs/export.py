"""`python -m pipeline export`: an etcd prefix, as of one revision, back into a ZooKeeper's files or a table.

The file's zxid begins the epoch after all that clients have seen: ZooKeeper turns nobody away, and no zxid is
given twice.
"""

import argparse
import asyncio
import json
from typing import NamedTuple

from pyspark.sql import DataFrame

from pipeline.etcd import load, read
from pipeline.etcd.options import Connection
from pipeline.etcd.options import add_arguments as add_etcd_arguments
from pipeline.jobs import census
from pipeline.jobs.ephemerals import Kept, kept_of, without_ephemerals
from pipeline.jobs.failure import Failure
from pipeline.jobs.progress import told
from pipeline.jobs.summary import add_list_argument, number, say, say_each, say_tree
from pipeline.sources.zookeeper_sink import check_folder, folder_of
from pipeline.spark import session

SUMMARY = "give a tree in etcd back to ZooKeeper"

_PARQUET = "parquet:"
_UNBOUNDED = 1 << 62  # bytes: ZooKeeper's own bound is jute.maxbuffer, which is the user's


class Prefix(NamedTuple):
    """What is to be exported."""

    seen: read.Survey
    sessions: list[read.Session]
    proxies: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    add("target", help="a directory for ZooKeeper (dataDir), without snapshots or logs, or parquet:DIRECTORY")
    add_etcd_arguments(parser)
    add("--revision", type=number, default=0, help="etcd's revision to export (default: the newest)")
    add(
        "--keep-sessions",
        action="store_true",
        help="bring those sessions along, with their ephemerals, that came from a ZooKeeper",
    )
    add("--compression", choices=("gz", "snappy"), help="compress the snapshot")
    add(
        "--trailer",
        choices=("seal", "digest", "full"),
        default="seal",
        help="what follows the nodes: every server takes seal (default); 3.9's restore wants full",
    )
    add("--dry-run", action="store_true", help="tell what would be done, and do nothing")
    add_list_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export; raises NotReadable, Failure and Spark's errors."""
    if not arguments.target.startswith(_PARQUET):
        _check(arguments.target)
    connection = Connection.from_arguments(arguments)
    found = asyncio.run(_look(connection, arguments.revision))
    say(
        f"source: {connection.prefix} at revision {found.seen.revision}, last zxid 0x{found.seen.last_zxid:x}"
    )
    if found.proxies:
        say(f"source: {found.proxies} zketcd serve it: what they write from now on is not in the export")
    spark = session("zketcd export")
    options = {**connection.options(), "revision": str(found.seen.revision)}
    znodes = spark.read.format("zketcd").options(**options).load()
    with told(spark, "survey"):
        counted = census.take(znodes, connection.keys, _UNBOUNDED)
    derived = [held.row for held in found.sessions if held.derived]
    kept = kept_of(counted, derived if arguments.keep_sessions else ())
    say_tree(counted, kept, arguments.listed)
    if counted.kinds["ttl"]:
        say("TTL nodes: a ZooKeeper without zookeeper.extendedTypesEnabled=true deletes them when it starts")
    if counted.obstacle_count:
        say(f"refused: {counted.obstacle_count} znodes that ZooKeeper cannot hold")
        say_each("refused", (f"{path!r}: {reason}" for path, reason in counted.obstacles), arguments.listed)
        return 1
    zxid = load.first_zxid(max(found.seen.last_zxid, counted.max_zxid))
    if arguments.dry_run:
        say("dry run: nothing was written")
        return 0
    with told(spark, "write"):
        _write(without_ephemerals(spark, znodes, kept, zxid), arguments, kept, zxid)
    nodes = counted.nodes - len(kept.dropped_paths)
    say(f"exported: {nodes} znodes to {arguments.target}, zxids go on at 0x{zxid:x}")
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


async def _look(connection: Connection, revision: int) -> Prefix:
    keys = connection.keys
    async with connection.client() as etcd:
        seen = await read.survey(etcd, keys, revision)
        sessions = await read.sessions(etcd, keys, seen.revision)
        proxies = (await load.look(etcd, keys)).proxies
    return Prefix(seen, sessions, proxies)
