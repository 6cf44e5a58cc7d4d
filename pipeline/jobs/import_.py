"""`python -m pipeline import`: a ZooKeeper's tree into an etcd prefix, whole or not at all.

Survey, refuse what cannot be, load under the fence, publish. Nothing is served before the last step, and a
run that failed or was killed can be run again.
"""

import argparse
import asyncio
from collections.abc import Collection, Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.etcd import load, sessions
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.options import add_arguments as add_etcd_arguments
from pipeline.jobs import census, origin
from pipeline.jobs.census import Census
from pipeline.jobs.failure import Failure
from pipeline.jobs.origin import Origin
from pipeline.jobs.progress import tell, told
from pipeline.spark import session
from pipeline.table import ZNODES, SessionRow
from schema.paths import parent_of

SUMMARY = "move a ZooKeeper's tree into etcd"

_LISTED = 50  # paths of one kind in the summary


class Kept(NamedTuple):
    """What becomes of ephemerals and their sessions."""

    sessions: tuple[SessionRow, ...]  # that come over
    dropped_paths: tuple[str, ...]  # ephemerals of all others
    dropped_owners: tuple[int, ...]


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
        type=_seconds,
        default=60,
        metavar="SECONDS",
        help="how long kept sessions are kept alive until a server is started on the prefix (default: 60)",
    )
    add("--overwrite", action="store_true", help="let go what lies under the prefix now")
    add("--dry-run", action="store_true", help="tell what would be done, and do nothing")
    add("--list", dest="listed", type=_seconds, default=_LISTED, metavar="N", help="paths of each kind told")
    add(
        "--max-txn-ops",
        type=_positive,
        default=Limits().max_txn_ops,
        help="etcd's own --max-txn-ops (default: 128)",
    )
    add(
        "--max-request-bytes",
        type=_positive,
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
            _say(f"source: {note}")
        with told(spark, "survey"):
            counted = census.take(found.znodes, connection.keys, limits.max_request_bytes)
        kept = _kept(found, counted, keep_sessions=arguments.keep_sessions)
        _tell(found, counted, kept, arguments.listed)
        taken = asyncio.run(_taken(connection, kept.sessions))
        if _refused(found, counted, taken, arguments):
            return 1
        if arguments.dry_run:
            _say(f"target: {refusal or 'free'}")
            _say("dry run: nothing was written")
            return 1 if refusal else 0
        last_zxid = max(found.last_zxid, counted.max_zxid)
        fence = _load(spark, connection, limits, found.znodes, kept, last_zxid, overwrite=arguments.overwrite)
    nodes = counted.nodes - len(kept.dropped_paths)
    first = asyncio.run(_publish(connection, limits, fence, nodes, kept.sessions, last_zxid))
    _say(f"imported: {nodes} znodes under {connection.prefix}, zxids go on at 0x{first:x}")
    if kept.sessions and arguments.hold_sessions:
        _say(f"holding {len(kept.sessions)} sessions until a zketcd is started on {connection.prefix}")
        if not asyncio.run(_hold(connection, kept.sessions, arguments.hold_sessions)):
            _say("no zketcd came: the sessions' time runs now")
    return 0


def _kept(found: Origin, counted: Census, *, keep_sessions: bool) -> Kept:
    if keep_sessions and found.sessions is None:
        raise Failure(
            "--keep-sessions: the source does not tell its sessions; a data directory or 3.9's admin does"
        )
    come_over = (found.sessions or ()) if keep_sessions else ()
    ids = {row.id for row in come_over}
    dropped = [ephemeral for ephemeral in counted.ephemerals if ephemeral.session_id not in ids]
    return Kept(
        tuple(come_over),
        tuple(ephemeral.path for ephemeral in dropped),
        tuple(sorted({ephemeral.session_id for ephemeral in dropped})),
    )


def _tell(found: Origin, counted: Census, kept: Kept, most: int) -> None:
    kinds = counted.kinds
    _say(f"znodes: {counted.nodes}, {counted.data_bytes} bytes of data")
    _say(
        f"containers: {kinds['container']}, TTL nodes: {kinds['ttl']}, nodes with an ACL: {counted.with_acl}"
    )
    _say(
        f"ephemerals: {kinds['ephemeral'] - len(kept.dropped_paths)} kept with {len(kept.sessions)} sessions,"
        f" {len(kept.dropped_paths)} dropped"
    )
    _list("dropped", kept.dropped_paths, most)
    if found.digest is None:
        _say("digest: the source has none to check")
    else:
        _say(f"digest: {'equal' if found.digest == counted.digest else 'DIFFERENT'}")


def _refused(found: Origin, counted: Census, taken: Collection[int], arguments: argparse.Namespace) -> bool:
    """Tell what stands against the import; whether anything does."""
    if counted.obstacle_count:
        _say(f"refused: {counted.obstacle_count} znodes that zketcd cannot hold")
        _list("refused", (f"{path!r}: {reason}" for path, reason in counted.obstacles), arguments.listed)
    if taken:
        _say(f"refused: {len(taken)} sessions whose id is a lease of another tree in this etcd")
        _list("refused", (f"session 0x{number & (1 << 64) - 1:x}" for number in taken), arguments.listed)
    different = found.digest is not None and found.digest != counted.digest
    if different:
        _say(
            "refused: the tree's digest is not the one that ZooKeeper wrote down: the files are damaged, or"
            " the server ran in a locale that is not UTF-8 and has paths beyond ASCII (then: --snapshot and"
            " --accept-changes)"
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


def without_ephemerals(spark: SparkSession, znodes: DataFrame, kept: Kept, zxid: int) -> DataFrame:
    """The tree as it is once the sessions that do not come over have ended, in one transaction `zxid`.

    As DataTree.deleteNode leaves it: the parents' pzxid moves, their count of children ever created does not.
    """
    if not kept.dropped_paths:
        return znodes
    stays = ~F.col("owner").isin(list(kept.dropped_owners))
    parents = sorted({parent_of(path) for path in kept.dropped_paths})
    marked = spark.createDataFrame([(path, zxid) for path in parents], "path string, ended long")
    joined = znodes.where(stays).join(F.broadcast(marked), "path", "left")
    moved = joined.withColumn("pzxid", F.coalesce(F.greatest("ended", "pzxid"), "pzxid"))
    return moved.select(ZNODES.fieldNames())


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


def _say(text: str) -> None:
    print(text, flush=True)


def _list(what: str, items: Iterable[str], most: int) -> None:
    for number, item in enumerate(items):
        if number == most:
            _say(f"{what}: ... and more (--list)")
            return
        _say(f"{what}: {item}")


def _seconds(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
