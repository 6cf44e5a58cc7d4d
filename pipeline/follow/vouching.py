"""Shows the source's proxies that the follower holds the copy (`proxy.log.follow.standby_signs`)."""

import asyncio
from collections.abc import Awaitable, Callable

from pipeline.errors import Failure
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Get, Put, RangeResult, Txn
from proxy.log.record import TIMEOUT
from schema.errors import BadValue
from schema.followed import Sign, decode_sign, encode_sign
from schema.keys import Keyspace

_EVERY = 1.0  # seconds between two signs of life


async def vouch(etcd: Etcd, keys: Keyspace, sign: Sign, hold: Callable[[], Awaitable[None]]) -> None:
    """Give signs for ever, into the source's etcd. `hold` touches the copy's fence.

    Raises Failure if the follower of another copy signs there, and what `hold` raises.
    """
    signs = _Signs(etcd, keys)
    await hold()  # a copy that is promoted has to wait for the proxies that have seen a sign
    await signs.give(sign)  # it shows no time, but from now on the proxies need a follower
    while True:
        seen = signs.revision
        await hold()  # behind what was seen, so that the sign cannot be too new
        await signs.give(sign._replace(revision=seen))
        await asyncio.sleep(_EVERY)


class _Signs:
    def __init__(self, etcd: Etcd, keys: Keyspace) -> None:
        self._etcd = etcd
        self._key = keys.heard
        self._there = 0  # mod_revision of the sign that is there; 0: there is none
        #: A revision that etcd has reached.
        self.revision = 0

    async def give(self, sign: Sign) -> None:
        value = encode_sign(sign)
        while True:
            # Within a Txn: etcd's quota lets it pass. A full etcd can be read by clients.
            put = Txn((), (Put(self._key, value),))
            done = await self._etcd.txn(
                Txn((Compare(self._key, self._there),), (put,), (Get(self._key),)), TIMEOUT
            )
            self.revision = done.revision
            if done.succeeded:
                self._there = done.revision
                return
            found = done.responses[0]
            assert isinstance(found, RangeResult)
            self._there = 0
            if found.kvs:
                self._check_is_ours(found.kvs[0].value, sign)
                self._there = found.kvs[0].mod_revision
                if found.kvs[0].value == value:  # the answer to an earlier try was lost
                    return

    def _check_is_ours(self, value: bytes, ours: Sign) -> None:
        """With two, one copy could be served while the follower of the other one signs on."""
        key = self._key.decode()
        try:
            there = decode_sign(value)
        except BadValue as error:
            raise Failure(
                f"{error}: delete the key {key} in the source's etcd, then run this again"
            ) from error
        if (there.cluster_id, there.prefix) != (ours.cluster_id, ours.prefix):
            raise Failure(
                f"the source needs the follower of another copy: of {there.prefix} in the etcd cluster"
                f" {there.cluster_id:016x}. Only one copy can have --standby-within. If that one is given"
                f" up for good, delete the key {key} in the source's etcd, then run this again"
            )
