"""The origins of a tree: a data directory, a table in Parquet, a running ensemble, or an archive.

/var/lib/zookeeper            a dataDir or its version-2
parquet:/path                 a table of znodes
zk://host:2181,host:2181      a walk over the wire
http://host:8080              the admin server's snapshot (3.9)
archive:/path                 a moment of an archive of zketcd (--at)
"""

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.parquet as pq

from pipeline.batches import batch_of
from pipeline.errors import Failure
from pipeline.etcd import archived
from pipeline.etcd.options import Connection
from pipeline.formats.directory import GAP, Survey
from pipeline.jobs import live_sides, tables
from pipeline.jobs.summary import add_auth_argument
from pipeline.live import admin
from pipeline.live.address import is_url, servers_of
from pipeline.live.walk import LOSSES, Walk, node_count
from pipeline.running.progress import Reporter
from pipeline.running.table import Table
from pipeline.sources.options import options_of
from pipeline.sources.parquet import PREFIX as PARQUET
from pipeline.table import SessionRow
from proxy.state.digest import whole

_ADMIN = ("http://", "https://")


class Origin(NamedTuple):
    """A tree to move."""

    znodes: Table
    last_zxid: int  # the last one that its clients may have seen; 0: the largest in its nodes
    sessions: tuple[SessionRow, ...] | None  # None: the origin does not have them
    digest: int | None  # of the whole tree; None if the origin does not have it
    notes: tuple[str, ...]  # notes about it for the user


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The origin and its options."""
    add = parser.add_argument
    add(
        "source",
        help="a data directory of ZooKeeper, parquet:DIRECTORY, zk://HOST:PORT[,HOST:PORT] (a walk over a"
        " running ensemble), http://HOST:PORT (the admin server of a running 3.9) or archive:URL (zketcd's)",
    )
    tables.add_arguments(parser)
    archived.add_argument(parser)
    add_auth_argument(parser)
    add(
        "--accept-changes",
        action="store_true",
        help="continue although the digest differs or a running ensemble was written to: for rehearsals",
    )
    add("--work-dir", metavar="DIR", help="directory for temporary copies of a running ensemble")


@contextmanager
def opened(arguments: argparse.Namespace, reporter: Reporter) -> Iterator[Origin]:
    """The origin that the command line names. Raises Failure, BadFile, WalkFailed, NoSnapshot."""
    source: str = arguments.source
    if source.startswith(PARQUET):
        yield Origin(tables.of_parquet(source), 0, None, None, ())
    elif source.startswith(archived.PREFIX):
        yield _archived(arguments)
    elif is_url(source):
        with TemporaryDirectory(prefix="zketcd-walk-", dir=arguments.work_dir) as folder:
            yield _walked(arguments, Path(folder), reporter)
    elif source.startswith(_ADMIN):
        with TemporaryDirectory(prefix="zketcd-snapshot-", dir=arguments.work_dir) as folder:
            yield _downloaded(arguments, Path(folder), reporter)
    elif "://" in source:
        raise Failure(
            f"{source} is none of {PARQUET}DIRECTORY, zk://, http(s)://, archive:URL or a directory"
        )
    else:
        yield _files(arguments, source)


def _archived(arguments: argparse.Namespace) -> Origin:
    machine = archived.machine_of(arguments.source, arguments.at)
    seen = archived.survey_of(machine)
    assert seen.changed is not None
    carried = tuple(session.row for session in sorted(seen.changed.sessions) if session.derived)
    notes = (f"{arguments.source} at {arguments.at}, last zxid 0x{machine.zxid:x}",)
    znodes = live_sides.table_of(Connection(""), seen)
    return Origin(znodes, machine.zxid, carried, whole(machine.tree.nodes, {}), notes)


def _files(arguments: argparse.Namespace, path: str) -> Origin:
    there = tables.of_directory(path, arguments)
    found = there.survey
    notes = (_described(found), *found.notes)
    return Origin(there.znodes, found.last_zxid, found.sessions, found.digest, notes)


def _described(found: Survey) -> str:
    name = Path(found.snapshot).name
    if not found.transactions:
        return f"{name}, no transactions behind it, last zxid 0x{found.last_zxid:x}"
    return f"{name} and {found.transactions} transactions behind it, last zxid 0x{found.last_zxid:x}"


def _walked(arguments: argparse.Namespace, folder: Path, reporter: Reporter) -> Origin:
    servers = servers_of(arguments.source)
    walk = Walk(servers, arguments.auth)
    file = folder / "znodes.parquet"
    asyncio.run(_keep(walk, file, reporter, node_count(servers)))
    notes = [f"a walk over {arguments.source}, last zxid 0x{walk.last_zxid:x}", *LOSSES]
    if walk.changed:
        if not arguments.accept_changes:
            raise Failure(
                f"{arguments.source} was written to during the walk: the copy is a tree that never existed."
                " Stop its writers, or import the copy anyway with --accept-changes"
            )
        notes.append("it was written to during the walk: the result never was a tree of its own")
    return Origin(tables.of_parquet(f"{PARQUET}{file}"), walk.last_zxid, None, None, tuple(notes))


async def _keep(walk: Walk, file: Path, reporter: Reporter, about: int | None) -> None:
    writer = None
    with reporter.step("walk", about) as count:
        try:
            async for page in walk.rows():
                if not page:
                    continue
                batch = batch_of(page)
                if writer is None:
                    writer = pq.ParquetWriter(file, batch.schema)
                writer.write_batch(batch)
                count.add(batch.num_rows, batch.nbytes)
        finally:
            if writer is not None:
                writer.close()


def _downloaded(arguments: argparse.Namespace, folder: Path, reporter: Reporter) -> Origin:
    authorization = " ".join(
        f"{identity.scheme} {identity.identity.decode()}" for identity in arguments.auth[:1]
    )
    admin.check(arguments.source)
    reporter.message(f"asking {arguments.source} for a snapshot")
    file = admin.download(arguments.source, folder, authorization)
    reporter.message(f"got {file.name}, {file.stat().st_size} bytes")
    there = tables.directory_of(options_of({"path": str(folder), "repair": GAP}))
    found = there.survey
    notes: list[str] = [f"the admin server's {_described(found)}"]
    if found.incomplete:
        if not arguments.accept_changes:
            raise Failure(
                f"{arguments.source} was written to while it made its snapshot, and the log that would"
                " complete the snapshot is not available. Stop its writers, or import the copy anyway with"
                " --accept-changes"
            )
        notes.append("it was written to during the copy: the result is a tree that never existed")
    elif found.checked.digest is None:
        notes.append("its snapshot has no digest: writes during the copy cannot be detected")
    digest = None if found.incomplete else found.digest
    return Origin(there.znodes, found.last_zxid, found.sessions, digest, tuple(notes))
