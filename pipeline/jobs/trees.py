"""The trees that commands read, each named by one word on the command line: pipeline.addresses says how.

`tree_of` gives what `verify` and `inspect` read, `origin_of` what `import` moves.
"""

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.parquet as pq

from archive.files.catalog import ArchiveError
from archive.files.moment import Moment
from archive.files.store import existing
from archive.past.state import state_at
from pipeline.addresses import ADMIN, ARCHIVE, PARQUET, is_ensemble, is_in_etcd, servers_of
from pipeline.batches import batch_of
from pipeline.errors import Failure
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.etcd.read import TreeAt
from pipeline.etcd.tree import changed_of, outline_of
from pipeline.formats import directory
from pipeline.formats.directory import Survey
from pipeline.formats.errors import GAP
from pipeline.job import Table
from pipeline.live import admin
from pipeline.live.walk import LOSSES, Walk, node_count
from pipeline.progress import Reporter
from pipeline.sources.options import Options, options_of
from pipeline.sources.parquet import ParquetReader, RemoteParquet, local_path
from pipeline.sources.zketcd_tree import ZketcdReader
from pipeline.sources.zookeeper_files import ZnodeReader
from pipeline.sources.zookeeper_log import LogReader
from pipeline.sources.zookeeper_wire import Ensemble, WireReader
from pipeline.table import SessionRow
from proxy.state.digest import whole
from proxy.state.machine import Machine
from schema.paths import ROOT


class Directory(NamedTuple):
    """A data directory."""

    survey: Survey
    znodes: Table
    options: Options

    def transactions(self) -> Table:
        """All existing logs. Raises BadFile."""
        _, logs = directory.files(self.options.path, self.options.log_path)
        return Table(LogReader(self.options), None, sum(Path(file).stat().st_size for file in logs))


class Tree(NamedTuple):
    """A tree to read."""

    name: str
    znodes: Table
    directory: Directory | None = None  # None: it is not one
    # Of a running ensemble its zxid before the walk: a larger one in a node shows writes during the walk. The
    # wire shows containers and TTL nodes as other nodes. None: it is not walked.
    walked_from: int | None = None


class Origin(NamedTuple):
    """A tree to move."""

    znodes: Table
    last_zxid: int = 0  # the last one that its clients may have seen; 0: the largest in its nodes
    sessions: tuple[SessionRow, ...] | None = None  # None: the origin does not have them
    digest: int | None = None  # of the whole tree; None if the origin does not have it
    notes: tuple[str, ...] = ()  # notes about it for the user


def tree_of(name: str, arguments: argparse.Namespace) -> Tree:
    """The tree that a word names. Raises Failure, BadFile, WalkFailed, ValueError, EtcdError."""
    if name.startswith(PARQUET):
        return Tree(name, of_parquet(name))
    if name.startswith(ARCHIVE):
        return Tree(name, of_state(archived(name, arguments.at)))
    if is_in_etcd(name):
        return Tree(name, asyncio.run(in_etcd(Connection.from_url(name, arguments))))
    if is_ensemble(name):
        ensemble = Ensemble(servers_of(name), tuple(arguments.auth))
        walk = Walk(ensemble.servers, ensemble.identities, [ROOT], 0)
        asyncio.run(_exhaust(walk))
        table = Table(WireReader(ensemble), node_count(ensemble.servers))
        return Tree(name, table, walked_from=walk.first_zxid)
    if "://" in name:
        raise Failure(
            f"{name} is none of {PARQUET}DIRECTORY, zk://, etcd://, etcds://, {ARCHIVE}URL or a directory"
        )
    found = of_directory(name, arguments)
    return Tree(name, found.znodes, found)


def of_directory(path: str, arguments: argparse.Namespace) -> Directory:
    """A directory's state and nodes. Raises BadFile, Failure."""
    if not path:
        raise Failure("the path of a data directory is empty: name a dataDir, as /var/lib/zk")
    given = {
        "path": path,
        "dataLogDir": arguments.data_log_dir,
        "snapshot": arguments.snapshot,
        "repair": arguments.repair,
    }
    return directory_of(options_of({name: value for name, value in given.items() if value}))


def directory_of(options: Options) -> Directory:
    """The same, for parsed options. Raises BadFile."""
    survey = options.survey()
    rows = directory.nodes_about(survey)
    return Directory(survey, Table(ZnodeReader(options, survey), rows, survey.checked.size), options)


def of_parquet(name: str) -> Table:
    """The table that `parquet:DIRECTORY` names. Raises Failure."""
    path = local_path(name)
    if path is None:
        return Table(RemoteParquet(name.removeprefix(PARQUET)))
    reader = ParquetReader(path)
    return Table(reader, reader.rows, reader.bytes)


async def in_etcd(connection: Connection) -> Table:
    """The znodes of a tree in etcd: every pass over them reads the same position. Raises Failure, EtcdError.

    If the log has to be replayed for that, the runner does it.
    """
    async with reached(connection) as etcd:
        found = await outline_of(etcd, connection.keys)
    return Table(ZketcdReader(connection, found.tree), found.nodes, found.bytes)


def archived(name: str, at: Moment) -> Machine:
    """The state that archive:URL has at a moment. Raises Failure."""
    try:
        return state_at(existing(name.removeprefix(ARCHIVE)), at)
    except (ArchiveError, ValueError) as error:
        raise Failure(str(error)) from error


def of_state(machine: Machine) -> Table:
    """The znodes of a state: all of them are in memory."""
    seen = TreeAt(0, None, 0, changed_of(machine, machine.tree.nodes.keys(), 0))
    return Table(ZketcdReader(Connection(""), seen), seen.nodes, seen.bytes)


async def _exhaust(walk: Walk) -> None:
    async for _ in walk.rows():
        pass


# -- trees to move -------------------------------------------------------------------------------------------


@contextmanager
def origin_of(arguments: argparse.Namespace, reporter: Reporter) -> Iterator[Origin]:
    """The origin that the command line names. Raises Failure, BadFile, WalkFailed, NoSnapshot."""
    source: str = arguments.source
    if source.startswith(PARQUET):
        yield Origin(of_parquet(source))
    elif source.startswith(ARCHIVE):
        yield _from_archive(arguments)
    elif is_ensemble(source):
        with TemporaryDirectory(prefix="zketcd-walk-", dir=arguments.work_dir) as folder:
            yield _walked(arguments, Path(folder), reporter)
    elif source.startswith(ADMIN):
        with TemporaryDirectory(prefix="zketcd-snapshot-", dir=arguments.work_dir) as folder:
            yield _downloaded(arguments, Path(folder), reporter)
    elif "://" in source:
        raise Failure(
            f"{source} is none of {PARQUET}DIRECTORY, zk://, http(s)://, archive:URL or a directory"
        )
    else:
        there = of_directory(source, arguments)
        found = there.survey
        notes = (_described(found), *found.notes)
        yield Origin(there.znodes, found.last_zxid, found.sessions, found.digest, notes)


def _from_archive(arguments: argparse.Namespace) -> Origin:
    machine = archived(arguments.source, arguments.at)
    znodes = of_state(machine)
    assert isinstance(znodes.reader, ZketcdReader)
    assert znodes.reader.seen.changed is not None
    carried = tuple(each.row for each in sorted(znodes.reader.seen.changed.sessions) if each.derived)
    notes = (f"{arguments.source} at {arguments.at}, last zxid 0x{machine.zxid:x}",)
    return Origin(znodes, machine.zxid, carried, whole(machine.tree.nodes, {}), notes)


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
    return Origin(of_parquet(f"{PARQUET}{file}"), walk.last_zxid, notes=tuple(notes))


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
    there = directory_of(options_of({"path": str(folder), "repair": GAP}))
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
