"""A short-lived incarnation, for a command that has to act on a tree: it lives as long as the command."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from proxy.etcd.interface import Etcd
from proxy.etcd.leases import kept_lease
from proxy.etcd.model import Compare, Get, Put, RangeResult, Txn
from proxy.etcd.repeating import until_known
from proxy.log.record import TIMEOUT, Registered, complete_record, look
from proxy.state.level import KNOWN
from proxy.support.environment import HOST, Randomness, clock_ms
from schema.entry import EntryWriter
from schema.keys import Keyspace
from schema.record import ProxyValue, encode_proxy

_LEASE = 15  # seconds


@asynccontextmanager
async def visit(
    etcd: Etcd,
    keys: Keyspace,
    levels: Collection[int] = KNOWN,
    version: str = "ctl",
    randomness: Randomness = HOST.randomness,
) -> AsyncIterator[Registered]:
    """Register an incarnation, and delete its key at the end. Raises TreeNotServable, EtcdError."""
    async with kept_lease(etcd, _LEASE, randomness) as lease:
        incarnation = f"ctl.{randomness.token_hex(6)}"
        key = keys.proxy(incarnation)
        value = encode_proxy(ProxyValue(tuple(sorted(levels)), version, visits=True))
        revision = 0
        while not revision:
            found = await until_known(look, etcd, keys)
            complete_record(found, keys)
            assert found.pair is not None
            known = Compare(keys.tree, found.pair.mod_revision)  # as for a proxy: another one may have a seal
            txn = Txn((Compare(key, 0), known), (Put(key, value, lease),), (Get(key, keys_only=True),))
            answer = await until_known(etcd.txn, txn, TIMEOUT)
            revision = answer.revision
            if not answer.succeeded:
                (there,) = answer.responses
                assert isinstance(there, RangeResult)
                # An earlier try, whose answer was lost; or a record was put.
                revision = there.kvs[0].create_revision if there.kvs else 0
        yield Registered(incarnation, revision)


async def append(etcd: Etcd, keys: Keyspace, request: tuple[int, int, bytes]) -> bool:
    """Append an entry of one request (kind, session id, body); False if the lease ended before.

    Raises EtcdError.
    """
    kind, session_id, body = request
    writer = EntryWriter()
    writer.add(kind, session_id, 0, (), body)
    async with visit(etcd, keys) as visitor:
        key = keys.entry(visitor.incarnation, 1)
        txn = Txn(
            (Compare(keys.proxy(visitor.incarnation), visitor.revision), Compare(key, 0)),
            (Put(key, writer.finish(clock_ms(), 0, 0, 0)),),
        )
        answer = await until_known(etcd.txn, txn, TIMEOUT)
        return answer.succeeded or bool((await etcd.range(Get(key, keys_only=True), TIMEOUT)).kvs)
