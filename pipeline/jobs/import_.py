"""`python -m pipeline import`: a ZooKeeper's tree into an etcd prefix, whole or not at all.

Survey, refuse what cannot be, load under the fence, publish. Nothing is served before the last step, and a
run that failed or was killed can be run again.
"""

import argparse
import asyncio
from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession

from pipeline.etcd import load, sessions
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.options import add_arguments as add_etcd_arguments
from pipeline.jobs import census, origin
from pipeline.jobs.census import Census
from pipeline.jobs.ephemerals import Kept, kept_of, without_ephemerals
from pipeline.jobs.failure import Failure
from pipeline.jobs.origin import Origin
from pipeline.jobs.progress import tell, told
from pipeline.jobs.summary import add_list_argument, number, positive, say, say_each, say_tree
from pipeline.spark import session
from pipeline.table import SessionRow

SUMMARY = "move a ZooKeeper's tree into etcd"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    origin.add_arguments(parser)
    add_etcd_arguments(parser)
    add = parser.add_argument
    add(
        "--keep-sessions",
        action="store_true",
        help="bring sessions along, with their ephemerals: clients that reconnect in time go on",
    )
    add(
        "--hold-sessions",
        type=number,
        default=60,
        metavar="SECONDS",
        help="how long kept sessions are kept alive until a server is started on the prefix (default: 60)",
    )
    add("--overwrite", action="store_true", help="let go what lies under the prefix now")
    add("--dry-run", action="store_true", help="tell what would be done, and do nothing")
    add_list_argument(parser)
    add(
        "--max-txn-ops",
        type=positive,
        default=Limits().max_txn_ops,
        help="etcd's own --max-txn-ops (default: 128)",
    )
    add(
        "--max-request-bytes",
        type=positive,
        default=Limits().max_request_bytes,
        help="etcd's own --max-request-bytes (default: 1572864)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Import; 1 if something stands against it. Raises Failure, LoadRefused and what `opened` does."""
    connection = Connection.from_arguments(arguments)
    limits = Limits(arguments.max_txn_ops, arguments.max_request_bytes)
    refusal = asyncio.run(_refusal(connection, overwrite=arguments.overwrite))
    if refusal and not arguments.dry_run:
        raise Failure(refusal)
    spark = session("zketcd import")
    with origin.opened(spark, arguments) as found:
        for note in found.notes:
            say(f"source: {note}")
        with told(spark, "survey"):
            counted = census.take(found.znodes, connection.keys, limits.max_request_bytes)
        if arguments.keep_sessions and found.sessions is None:
            raise Failure(
                "--keep-sessions: the source does not tell its sessions; files and 3.9's admin server do"
            )
        kept = kept_of(counted, (found.sessions or ()) if arguments.keep_sessions else ())
        _tell(found, counted, kept, arguments.listed)
        last_zxid = max(found.last_zxid, counted.max_zxid)
        if counted.roots != 1:
            raise Failure(f"the source has {counted.roots} rows for /, not one: it is no whole tree")
        load.first_zxid(last_zxid)  # refuses where there is none, while the target is still as it was
        taken = asyncio.run(_taken(connection, kept.sessions))
        if _refused(found, counted, taken, arguments):
            return 1
        if arguments.dry_run:
            say(f"target: {refusal or 'free'}")
            say("dry run: nothing was written")
            return 1 if refusal else 0
        fence = _load(spark, connection, limits, found.znodes, kept, last_zxid, overwrite=arguments.overwrite)
    nodes = counted.nodes - len(kept.dropped_paths)
    first = asyncio.run(_publish(connection, limits, fence, nodes, kept.sessions, last_zxid))
    say(f"imported: {nodes} znodes under {connection.prefix}, zxids go on at 0x{first:x}")
    if kept.sessions and arguments.hold_sessions:
        say(f"holding {len(kept.sessions)} sessions until a zketcd is started on {connection.prefix}")
        if not asyncio.run(_hold(connection, kept.sessions, arguments.hold_sessions)):
            say("no zketcd came: the sessions' time runs now")
    return 0


def _tell(found: Origin, counted: Census, kept: Kept, most: int) -> None:
    say_tree(counted, kept, most)
    if found.digest is None:
        say("digest: the source has none to check")
    else:
        say(f"digest: {'equal' if found.digest in counted.digests else 'DIFFERENT'}")


def _refused(found: Origin, counted: Census, taken: Collection[int], arguments: argparse.Namespace) -> bool:
    """Tell what stands against the import; whether anything does."""
    if counted.obstacle_count:
        say(f"refused: {counted.obstacle_count} znodes that zketcd cannot hold")
        say_each("refused", (f"{path!r}: {reason}" for path, reason in counted.obstacles), arguments.listed)
    if taken:
        say(f"refused: {len(taken)} sessions whose id is a lease of another tree in this etcd")
        say_each("refused", (f"session 0x{number & (1 << 64) - 1:x}" for number in taken), arguments.listed)
    different = found.digest is not None and found.digest not in counted.digests
    if different:
        say(
            "refused: the tree's digest is not the one that ZooKeeper wrote down: this is not what it had"
            " (--accept-changes takes it all the same)"
        )
    return bool(counted.obstacle_count or taken or (different and not arguments.accept_changes))


def _load(
    spark: SparkSession,
    connection: Connection,
    limits: Limits,
    znodes: DataFrame,
    kept: Kept,
    last_zxid: int,
    *,
    overwrite: bool,
) -> load.Fence:
    """Begin the load and write all znodes that come over."""
    fence = asyncio.run(_begin(connection, overwrite=overwrite))
    options = {
        **connection.options(),
        "load": str(fence.revision),
        "max-txn-ops": str(limits.max_txn_ops),
        "max-request-bytes": str(limits.max_request_bytes),
    }
    with told(spark, "load"):
        moved = without_ephemerals(spark, znodes, kept, load.first_zxid(last_zxid))
        moved.write.format("zketcd").options(**options).mode("append").save()
    return fence


async def _refusal(connection: Connection, *, overwrite: bool) -> str | None:
    """Why a load could not begin now; None if it could."""
    async with connection.client() as etcd:
        return load.refusal(await load.look(etcd, connection.keys), connection.keys, overwrite=overwrite)


async def _taken(connection: Connection, carried: Collection[SessionRow]) -> list[int]:
    async with connection.client() as etcd:
        return await sessions.taken_leases(etcd, connection.keys, carried)


async def _begin(connection: Connection, *, overwrite: bool) -> load.Fence:
    async with connection.client() as etcd:
        return await load.begin(etcd, connection.keys, overwrite=overwrite, progress=tell)


async def _publish(
    connection: Connection,
    limits: Limits,
    fence: load.Fence,
    nodes: int,
    carried: Collection[SessionRow],
    last: int,
) -> int:
    """Make the tree one that is served; returns the zxid at which it begins."""
    keys = connection.keys
    async with connection.client() as etcd:
        await load.check_count(etcd, keys, nodes)
        # Last, since the sessions' time runs from here on.
        await sessions.carry_over(etcd, keys, fence, carried, limits)
        await load.finish(etcd, keys, fence, last)
    return load.first_zxid(last)


async def _hold(connection: Connection, carried: Collection[SessionRow], seconds: int) -> bool:
    async with connection.client() as etcd:
        return await sessions.hold(etcd, connection.keys, carried, seconds)
