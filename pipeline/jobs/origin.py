"""Where a tree comes from: a data directory, a table in Parquet, or a running ensemble.

/var/lib/zookeeper            a dataDir or its version-2
parquet:/path                 a table of znodes
zk://host:2181,host:2181      a walk over the wire
http://host:8080              the admin server's snapshot (3.9)
"""

import argparse
import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pipeline.batches import batch_of
from pipeline.errors import Failure
from pipeline.formats import directory
from pipeline.formats.directory import Survey
from pipeline.jobs import tables
from pipeline.jobs.progress import tell
from pipeline.jobs.rows import Rows
from pipeline.live import admin
from pipeline.live.walk import LAST_PORT, LOSSES, Identity, Walk
from pipeline.table import SessionRow

_TOLD_EVERY = 50_000  # znodes of a walk
_WIRE = "zk://"
_ADMIN = ("http://", "https://")


class Origin(NamedTuple):
    """A tree to be moved."""

    rows: Rows
    last_zxid: int  # that its clients may have seen; 0: as its nodes say
    sessions: tuple[SessionRow, ...] | None  # None: they are not to be had from there
    digest: int | None  # of the whole tree; None where the origin does not say
    notes: tuple[str, ...]  # what the user should know of it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The origin and its options."""
    add = parser.add_argument
    add(
        "source",
        help="a data directory of ZooKeeper, parquet:DIRECTORY, zk://HOST:PORT[,HOST:PORT] (a walk over a"
        " running ensemble) or http://HOST:PORT (the admin server of a running 3.9)",
    )
    tables.add_arguments(parser)
    add_auth_argument(parser)
    add(
        "--accept-changes",
        action="store_true",
        help="continue although the digest differs or a running ensemble was written to: for rehearsals",
    )
    add("--work-dir", metavar="DIR", help="directory for temporary copies of a running ensemble")


@contextmanager
def opened(spark: SparkSession, arguments: argparse.Namespace) -> Iterator[Origin]:
    """The origin that the command line names. Raises Failure, BadFile, WalkFailed, NoSnapshot."""
    source: str = arguments.source
    if source.startswith(tables.PARQUET):
        yield Origin(Rows(spark, tables.of_parquet(spark, source)), 0, None, None, ())
        return
    if source.startswith(_WIRE):
        with TemporaryDirectory(prefix="zketcd-walk-", dir=arguments.work_dir) as folder:
            yield _walked(spark, arguments, Path(folder))
        return
    if source.startswith(_ADMIN):
        with TemporaryDirectory(prefix="zketcd-snapshot-", dir=arguments.work_dir) as folder:
            yield _downloaded(spark, arguments, Path(folder))
        return
    yield _files(spark, arguments, source)


def _files(spark: SparkSession, arguments: argparse.Namespace, path: str) -> Origin:
    there = tables.of_directory(spark, path, arguments)
    found = there.survey
    notes = (_described(found), *found.notes)
    rows = there.rows(spark, path, arguments)
    return Origin(rows, found.last_zxid, found.sessions, found.digest, notes)


def _described(found: Survey) -> str:
    name = Path(found.snapshot).name
    if not found.transactions:
        return f"{name}, no transactions behind it, last zxid 0x{found.last_zxid:x}"
    return f"{name} and {found.transactions} transactions behind it, last zxid 0x{found.last_zxid:x}"


def _walked(spark: SparkSession, arguments: argparse.Namespace, folder: Path) -> Origin:
    walk = Walk(servers_of(arguments.source.removeprefix(_WIRE)), arguments.auth)
    asyncio.run(_keep(walk, folder / "znodes.parquet"))
    notes = [f"a walk over {arguments.source}, last zxid 0x{walk.last_zxid:x}", *LOSSES]
    if walk.changed:
        if not arguments.accept_changes:
            raise Failure(
                f"{arguments.source} was written to during the walk: the copy is a tree that never existed."
                " Stop its writers, or import the copy anyway with --accept-changes"
            )
        notes.append("it was written to during the walk: the result never was a tree of its own")
    frame = spark.read.parquet(str(folder / "znodes.parquet"))
    return Origin(Rows(spark, frame), walk.last_zxid, None, None, tuple(notes))


async def _keep(walk: Walk, file: Path) -> None:
    count = 0
    writer = None
    try:
        async for page in walk.rows():
            if not page:
                continue
            batch = batch_of(page)
            if writer is None:
                writer = pq.ParquetWriter(file, batch.schema)
            writer.write_batch(batch)
            if (count + len(page)) // _TOLD_EVERY > count // _TOLD_EVERY:
                tell(f"walk: {count + len(page)} znodes so far")
            count += len(page)
    finally:
        if writer is not None:
            writer.close()


def _downloaded(spark: SparkSession, arguments: argparse.Namespace, folder: Path) -> Origin:
    authorization = " ".join(
        f"{identity.scheme} {identity.identity.decode()}" for identity in arguments.auth[:1]
    )
    tell(f"asking {arguments.source} for a snapshot")
    file = admin.download(arguments.source, folder, authorization)
    tell(f"got {file.name}, {file.stat().st_size} bytes")
    found = directory.survey(str(folder))
    notes: list[str] = [f"the admin server's {_described(found)}"]
    if found.fuzzy:
        if not arguments.accept_changes:
            raise Failure(
                f"{arguments.source} was written to while it made its snapshot, and the log that would"
                " complete the snapshot is not available. Stop its writers, or import the copy anyway with"
                " --accept-changes"
            )
        notes.append("it was written to during the copy: the result is a tree that never existed")
    elif found.checked.digest is None:
        notes.append("its snapshot has no digest: writes during the copy cannot be detected")
    frame = spark.read.format("zookeeper").load(str(folder))
    digest = None if found.fuzzy else found.digest
    return Origin(Rows(spark, frame), found.last_zxid, found.sessions, digest, tuple(notes))


def servers_of(text: str) -> Sequence[tuple[str, int]]:
    """Servers as HOST:PORT, separated by commas. Raises Failure."""
    servers = []
    for part in text.rstrip("/").split(","):
        found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^/:\s]+)(?::(\d{1,5}))?", part.strip())
        if found is None or int(found[2] or 0) > LAST_PORT:
            raise Failure(f"{part!r} is not HOST:PORT")
        servers.append((found[1].strip("[]"), int(found[2] or 2181)))
    return servers


def add_auth_argument(parser: argparse.ArgumentParser) -> None:
    """Who we are to a running ensemble."""
    parser.add_argument(
        "--auth",
        type=_identity_of,
        action="append",
        default=[],
        metavar="SCHEME:ID",
        help="identity for a running ensemble, e.g. digest:user:password; may be repeated",
    )


def _identity_of(text: str) -> Identity:
    """SCHEME:ID, for argparse."""
    scheme, colon, identity = text.partition(":")
    if not colon or not scheme:
        raise argparse.ArgumentTypeError(f"{text!r} is not SCHEME:ID")
    return Identity(scheme, identity.encode())
