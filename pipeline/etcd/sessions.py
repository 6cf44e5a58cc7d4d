"""Sessions that come over from ZooKeeper: a lease of the session's own id, a record that knows its password.

A client that reconnects with the id and password that ZooKeeper gave it goes on with its session.
"""

import asyncio
from collections.abc import Collection, Iterable

from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Fence, LoadRefused, count, first_error, insist, write
from pipeline.etcd.passwords import password_of
from pipeline.table import SessionRow
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdRefused, Put, RefusalKind
from proxy.sessions import hash_of, lease_ttl
from schema.keys import Keyspace
from schema.values import SessionValue, encode_session

_OWNER = "import"  # no incarnation of a proxy: whoever the client asks takes the session over
_AT_ONCE = 32  # requests in flight
_BREATH = 0.5  # seconds between looks whether a server has come


def record_of(session: SessionRow) -> bytes:
    """The value of the session's key."""
    return encode_session(SessionValue(hash_of(password_of(session.id)), session.timeout_ms, _OWNER))


async def taken_leases(etcd: Etcd, keys: Keyspace, sessions: Iterable[SessionRow]) -> list[int]:
    """Ids of sessions whose lease exists in this etcd already, with keys outside of the prefix."""
    taken = []
    free = asyncio.Semaphore(_AT_ONCE)

    async def ask(session_id: int) -> None:
        async with free:
            lease = await insist(lambda: etcd.lease_time_to_live(session_id))
        if lease.ttl > 0 and any(not keys.start <= key < keys.end for key in lease.keys):
            taken.append(session_id)

    with first_error():
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(ask(session.id))
    return sorted(taken)


async def carry_over(
    etcd: Etcd, keys: Keyspace, fence: Fence, sessions: Collection[SessionRow], limits: Limits
) -> None:
    """Grant the leases and put the records. A lease left by an earlier run is renewed. Raises LoadRefused."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def grant(session: SessionRow) -> None:
        async with free:
            await insist(lambda: _grant_anew(etcd, session))

    with first_error():
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(grant(session))
    puts = (Put(keys.session(session.id), record_of(session), session.id) for session in sessions)
    try:
        await write(etcd, keys, fence, puts, limits)
    except EtcdRefused as refused:
        if refused.kind is RefusalKind.LEASE_NOT_FOUND:
            raise LoadRefused(
                "a session's lease ran out before its record was written: run again"
            ) from refused
        raise


async def hold(etcd: Etcd, keys: Keyspace, sessions: Collection[SessionRow], seconds: float) -> bool:
    """Keep the sessions alive until a server serves the tree: their time runs from then on, as in ZooKeeper.

    Returns whether one came within `seconds`.
    """
    loop = asyncio.get_running_loop()
    keeper = etcd.lease_keeper(lambda lease, ttl: None)
    due = dict.fromkeys((session.id for session in sessions), 0.0)
    ttl = {session.id: lease_ttl(session.timeout_ms) for session in sessions}
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        if await count(etcd, keys.proxies, keys.proxies[:-1] + b"0"):
            return True
        now = loop.time()
        for session_id, when in due.items():
            if now >= when:
                keeper.send(session_id)
                due[session_id] = now + ttl[session_id] / 4
        await asyncio.sleep(_BREATH)
    return False


async def _grant_anew(etcd: Etcd, session: SessionRow) -> None:
    ttl = lease_ttl(session.timeout_ms)
    try:
        await etcd.lease_grant(session.id, ttl)
    except EtcdRefused as refused:
        if refused.kind is not RefusalKind.LEASE_EXISTS:
            raise
        await etcd.lease_revoke(session.id)
        await etcd.lease_grant(session.id, ttl)
