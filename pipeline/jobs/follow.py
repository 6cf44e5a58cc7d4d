"""`zketcd follow`: a tree in etcd that follows a ZooKeeper, until the cut-over, or a zketcd."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from archive.files.catalog import ArchiveError
from pipeline.addresses import ARCHIVE, is_in_etcd
from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.etcd.requests import TIMEOUT
from pipeline.follow import copying
from pipeline.follow.checking import check, check_with
from pipeline.follow.from_archive import InArchive, cannot_be_sealed
from pipeline.follow.from_etcd import InEtcd
from pipeline.follow.lost import answers, promote, seal_source
from pipeline.follow.options import Options
from pipeline.follow.output import DONE, NOT_LEVEL, STUCK, Stuck, print_progress
from pipeline.follow.retrying import retrying
from pipeline.follow.source import Source
from pipeline.follow.target import position_of
from pipeline.formats.errors import TAIL
from proxy.etcd.interface import Etcd
from proxy.log.record import TreeNotServable
from proxy.support.environment import clock_ms
from schema.record import Seal

# Options that say what to do, and what a check does without.
_NOT_WITH_CHECK = (
    *("overwrite", "until_level", "finish", "source_lost", "zxid", "keep_sessions", "timeout", "metrics"),
    "standby_within",
)
_SOURCES = f"config:FILE, etcd://HOST:PORT/PREFIX or {ARCHIVE}URL"
_OF_ZOOKEEPER = ("data_log_dir", "repair", "keep_sessions")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0: level or finished, as requested; 1: the log does not continue; 3: not level in time."""
    connection = Connection.from_arguments(arguments)
    of_zketcd = is_in_etcd(arguments.source) or arguments.source.startswith(ARCHIVE)
    if not of_zketcd and not Path(arguments.source).is_dir():
        raise Failure(f"{arguments.source} is no directory, {_SOURCES}")
    if arguments.check:
        _refuse(arguments, _NOT_WITH_CHECK, "does not go with --check")
    if of_zketcd:
        _refuse(arguments, _OF_ZOOKEEPER, "is for a ZooKeeper's directory")
    if arguments.standby_within and not is_in_etcd(arguments.source):
        raise Failure("--standby-within needs a source in etcd")
    if arguments.source_lost and not (arguments.finish and of_zketcd):
        raise Failure("--source-lost goes with --finish, for another zketcd")
    if arguments.force and not arguments.source_lost:
        raise Failure("--force goes with --source-lost")
    if arguments.finish and not arguments.source_lost and arguments.source.startswith(ARCHIVE):
        raise cannot_be_sealed(arguments.source)
    if arguments.timeout is not None and not (arguments.until_level or arguments.finish):
        raise Failure("--timeout goes with --until-level or --finish")
    try:
        if arguments.source_lost:
            return asyncio.run(_without(connection, arguments))
        return asyncio.run(_of_zketcd(connection, arguments) if of_zketcd else _inward(connection, arguments))
    except Stuck as error:
        print_progress(f"zketcd follow: {error}")
        return STUCK


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(arguments, name):
            raise Failure(f"--{name.replace('_', '-')} {why}")


def _options(connection: Connection, arguments: argparse.Namespace) -> Options:
    return Options(
        arguments.overwrite,
        arguments.until_level,
        arguments.finish,
        arguments.keep_sessions,
        arguments.zxid,
        arguments.timeout,
        Limits(max_request_bytes=arguments.max_request_bytes),
        arguments.metrics,
        connection.etcd,
        arguments.standby_within,
        connection.metrics_reader(),
    )


async def _inward(connection: Connection, arguments: argparse.Namespace) -> int:
    # To read a ZooKeeper's files takes numpy and pyarrow, and a zketcd is followed without.
    from pipeline.follow import inward

    source = inward.Directory(
        arguments.source, arguments.data_log_dir, arguments.log_timeout, torn=arguments.repair == TAIL
    )
    async with reached(connection) as etcd:
        if arguments.check:
            return await check(etcd, connection.keys, source.path, source.log_path)
        return await inward.follow(source, etcd, connection.keys, _options(connection, arguments))


async def _of_zketcd(connection: Connection, arguments: argparse.Namespace) -> int:
    seals = arguments.finish or arguments.standby_within > 0
    ends = arguments.until_level or arguments.finish or arguments.check
    waiting = None if ends else print_progress
    async with (
        reached(connection, writes=not arguments.check, waiting=waiting) as etcd,
        source_of(connection, etcd, arguments, writes=seals, waiting=waiting) as source,
    ):
        if not arguments.check:
            return await copying.follow(source, etcd, connection.keys, _options(connection, arguments))
        try:
            return await check_with(source, etcd, connection.keys)
        except (TreeNotServable, ArchiveError) as error:
            raise Failure(f"{source.name}: {error}") from error


async def _without(connection: Connection, arguments: argparse.Namespace) -> int:
    """Complete the copy without its source, then seal that as soon as it can be reached."""
    name: str = arguments.source
    lost = None if name.startswith(ARCHIVE) else await asyncio.to_thread(Connection.from_url, name, arguments)
    async with reached(connection, writes=True) as etcd:
        limits = Limits(max_request_bytes=arguments.max_request_bytes)
        patient = retrying(etcd)
        there = await position_of(patient, connection.keys)
        is_open = there is not None and not there.finished
        if lost is not None and is_open and not arguments.force:
            async with lost.client() as client:
                if await answers(client, lost.keys):
                    raise Failure(
                        f"the etcd of {name} answers: --finish without --source-lost loses nothing. If it is"
                        " lost all the same, add --force; nothing was changed"
                    )
        position = await promote(patient, connection.keys, limits, None if lost is None else lost.keys)
        if lost is None:
            print_progress(
                f"{name} does not know where its etcd is. Run this command with its config:FILE: it"
                " seals the source as soon as it can be reached"
            )
            return DONE
        cluster_id = (await patient.status(TIMEOUT)).cluster_id
    assert position.origin is not None
    where = Seal(connection.etcd, connection.prefix, cluster_id, clock_ms())
    try:
        async with asyncio.timeout(arguments.timeout), lost.client() as client:
            source = retrying(client, f"the etcd of {name}, which is not known to be sealed,")
            await seal_source(source, lost.keys, name, position.origin, where)
    except TimeoutError:
        print_progress(f"{name} was not reached within {arguments.timeout:g} s: run this command again")
        return NOT_LEVEL
    except TreeNotServable as error:
        raise Failure(f"{name} is not sealed: {error}") from error
    return DONE


@asynccontextmanager
async def source_of(
    target: Connection,
    etcd: Etcd,
    arguments: argparse.Namespace,
    *,
    writes: bool = False,
    waiting: Callable[[str], None] | None = None,
) -> AsyncIterator[Source]:
    """The zketcd that the command line names. `writes`, `waiting`: as of `reached`.

    Raises Failure, ValueError.
    """
    name: str = arguments.source
    if name.startswith(ARCHIVE):
        yield InArchive(name, name.removeprefix(ARCHIVE))
        return
    if not is_in_etcd(name):
        raise Failure(f"{name} is not {_SOURCES}")
    connection = await asyncio.to_thread(Connection.from_url, name, arguments)
    async with reached(connection, writes=writes, waiting=waiting) as source:
        there = retrying(source, "the source's etcd")
        prefixes = sorted((target.keys.prefix, connection.keys.prefix))
        clusters = [(await each.status(TIMEOUT)).cluster_id for each in (there, retrying(etcd))]
        if clusters[0] == clusters[1] and (prefixes[1] + b"/").startswith(prefixes[0] + b"/"):
            raise Failure(f"{name} and {connection.prefix} of --etcd are in one tree: name another --prefix")
        position = await position_of(there, connection.keys)
        if position is not None and not position.finished and position.origin is not None:
            origin = position.origin
            if (origin.cluster_id, origin.prefix) == (clusters[1], target.prefix):
                raise Failure(
                    f"{name} is a copy that follows this very tree, {target.prefix} of --etcd: is this the"
                    " wrong host?"
                )
        yield InEtcd(name, there, connection.keys)
