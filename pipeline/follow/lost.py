"""The source is lost: the copy is completed as it is. Later the source is sealed, and its changes are listed.

Until the source is sealed, its proxies may serve clients as well as the copy's do.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator

from archive.files.moment import shown
from cli.output import show
from codec.longs import hex64
from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import target_of
from pipeline.etcd.requests import TIMEOUT
from pipeline.follow import target
from pipeline.follow.ends import Ends
from pipeline.follow.finishing import print_finished
from pipeline.follow.output import print_progress
from pipeline.follow.source import NotThere, Reading, Source, check_cluster, check_prefix
from pipeline.follow.target import Origin, Position, TooLarge, position_of
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, Get
from proxy.log.seal import seal
from proxy.state.feed import made_by, row
from proxy.state.level import UnknownLevel
from proxy.state.recording import Recorded, What, keep_changes
from proxy.support.environment import HOST, Clock
from proxy.support.tasks import together
from schema.entry import Request
from schema.keys import Keyspace
from schema.record import Seal
from schema.znode import CONTAINER_OWNER, session_of, ttl_of
from schema.zxids import epoch_begun_at

_MARGIN = 1.0  # seconds, for clocks that do not run alike, and for answers on their way
_ANSWERS = 2.0  # seconds in which an etcd that can be reached answers
_IDLE = 0.1  # seconds between two looks whether all has been read


async def answers(etcd: Etcd, keys: Keyspace) -> bool:
    """Whether the source's etcd can be read, soon."""
    with contextlib.suppress(TimeoutError, EtcdError):
        async with asyncio.timeout(_ANSWERS):
            await etcd.range(Get(keys.tree, keys_only=True), _ANSWERS)
            return True
    return False


async def promote(
    etcd: Etcd, keys: Keyspace, limits: Limits, named: Keyspace | None = None, clock: Clock = HOST.clock
) -> Position:
    """Complete the copy as it is, in a new epoch of zxids, without sessions; or see that it is complete.

    `named`: the source as the command line names it. Whichever follower runs is stopped by the fence. Raises
    Failure, EtcdError.
    """
    there = await position_of(etcd, keys)
    if there is None or there.origin is None:
        raise Failure(f"{keys.prefix.decode()} does not follow another zketcd")
    if named is not None:
        check_prefix("the source", there.origin, named.prefix.decode(), "nothing was changed")
    if there.finished:
        print_finished(there)
        return there
    tree, machine, position = await target.resume(etcd, keys, limits, lost=True)
    within = await target.allowed(etcd, keys)
    if within:
        print_progress(f"waiting {within + _MARGIN:g} s, until the source's proxies do not answer any more")
        await asyncio.sleep(within * 1.01 + _MARGIN)
    assert position.origin is not None
    show(
        f"{position.source} is lost: its last change here has zxid 0x{position.zxid:x}, of"
        f" {shown(position.origin.clock)}, after {position.origin.entries} entries of its log"
    )
    seconds = clock.time()
    now = int(seconds * 1000)
    sessions = len(machine.sessions)
    changes = Ends(machine)
    changes.end_sessions(epoch_begun_at(seconds, position.zxid), now)
    position = position._replace(zxid=machine.zxid)
    try:
        await tree.finish(machine, changes.take(), now, position)
    except TooLarge:  # very many ephemerals
        position = await tree.rebase(machine, position)
        await tree.finish(machine, changes.take(), now, position)
    show(f"sessions: {sessions} ended, with their ephemerals")
    print_finished(position)
    return position


async def seal_source(etcd: Etcd, keys: Keyspace, name: str, origin: Origin, where: Seal) -> None:
    """Seal the source as soon as `etcd`, its client that tries again, reaches it.

    Raises OtherSource, TreeNotServable, EtcdError.
    """
    check_prefix(name, origin, keys.prefix.decode(), "it is not sealed")
    if not await _is_sealed(etcd, keys):
        print_progress(f"{name} is not sealed yet: its proxies may serve clients")
    check_cluster(name, origin, (await etcd.status(TIMEOUT)).cluster_id, "it is not sealed")
    position = await seal(etcd, keys, where)
    show(f"{name} is sealed at position {position}: no zketcd serves it any more", flush=True)


async def _is_sealed(etcd: Etcd, keys: Keyspace) -> bool:
    """False also if this is not known soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ANSWERS):
            record = (await target_of(etcd, keys)).record
            return record is not None and record.seal is not None
    return False


# -- what only the source has -------------------------------------------------------------------------------


async def list_lost(source: Source, etcd: Etcd, keys: Keyspace, write: Callable[[str], None]) -> None:
    """Write a line of JSON for each change of the source that the copy has not got.

    Raises Failure, EtcdError, TreeNotServable.
    """
    there = await position_of(etcd, keys)
    if there is None or there.origin is None or not there.finished:
        raise Failure(f"{keys.prefix.decode()} is no copy of another zketcd that is complete")
    try:
        reading = await source.open(there.origin.entries, there.origin)
    except NotThere as error:
        raise Failure(
            f"{source.name} does not have all since then: {error}. Name its archive, if it has one"
        ) from error
    written = 0

    def counted(line: str) -> None:
        nonlocal written
        written += 1
        write(line)

    try:
        await together([reading.run(), _list(reading, counted)])
    except UnknownLevel as error:
        raise Failure(f"{source.name}: {error}") from error
    except _Listed:
        if not written:
            print_progress(f"{source.name} has no change that {keys.prefix.decode()} lacks")
        if reading.sealed is None:
            print_progress(f"{source.name} is not sealed: there may be more")


class _Listed(Exception):
    """All was read."""


async def _list(reading: Reading, write: Callable[[str], None]) -> None:
    machine = reading.machine
    recorded = keep_changes(machine)
    while True:
        while (arrived := reading.take()) is not None:
            item, entry = arrived
            machine.begin(item.incarnation, item.number, entry.clock, entry.rules)
            for request in entry.requests:
                machine.execute(request)
                for line in _lines(recorded, machine.zxid, entry.clock, request):
                    write(line)
                recorded.clear()
            machine.end()
        if reading.sealed is not None or reading.level_at() is not None:
            raise _Listed
        await asyncio.sleep(_IDLE)


def _lines(changes: list[Recorded], zxid: int, clock: int, request: Request) -> Iterator[str]:
    """In the form of the feed of changes (docs/tables.md), with what it takes to make them again."""
    made = made_by(request, zxid, clock, changes)
    if made is None:
        return
    for change in made.changes:
        found = row(made, change, data=True) | {"session": hex64(request.session_id)}
        if change.what in (What.CREATED, What.ACL):
            found["acl"] = [list(each) for each in change.acl]
        if change.what == What.CREATED:
            found["ephemeral"] = bool(session_of(change.owner))
            found["container"] = change.owner == CONTAINER_OWNER
            found["ttl"] = ttl_of(change.owner)
        yield json.dumps(found)
