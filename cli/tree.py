"""The tree in etcd as of now, for commands that only look at it: also a copy, and a tree that is sealed."""

import asyncio

import uvloop

from proxy.etcd.access import Access
from proxy.etcd.interface import Etcd
from proxy.log.follow.catch_up import Loaded
from proxy.log.load.start import Wanted, load_as_of
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.keys import Keyspace


async def loaded(etcd: Etcd, keys: Keyspace, timeout: float, upto: int = 0) -> Loaded:
    """The state, and where it stands. `upto`: as of this position. Raises TreeNotServable, EtcdError."""
    return await load_as_of(etcd, keys, Wanted(upto=upto), timeout=timeout, even_sealed=True, even_copy=True)


def tree_now(access: Access, prefix: str, timeout: float) -> Machine:
    """The state. Raises ValueError, OSError, TreeNotServable, EtcdError; blocks."""

    async def load() -> Machine:
        etcd = access.client()
        try:
            return (await loaded(etcd, Keyspace(prefix), timeout)).machine
        finally:
            await etcd.close()

    with uncollected(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load())
