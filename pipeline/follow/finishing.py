"""How a command requests the cut-over: by a key in etcd, so that the follower may run on any host.

The key has a lease, which the command keeps alive: however the command ends, nobody finishes for it later. A
running follower answers by putting the key again, about once a second, until the tree is complete. If no
follower answers, the command itself follows.
"""

import asyncio
import time
from typing import NamedTuple

from cli.output import show
from pipeline.etcd.load import target_of
from pipeline.etcd.requests import commit, read
from pipeline.follow.output import Stuck, print_progress
from pipeline.follow.target import Position, position_of
from proxy.etcd.interface import Etcd
from proxy.etcd.leases import kept_lease
from proxy.etcd.model import Compare, EtcdRefused, Get, KeyValue, Put, RefusalKind, Txn
from schema.errors import BadValue
from schema.json_values import boolean, number, pack_json, unpack_json
from schema.keys import Keyspace

_POLL = 0.1  # seconds
_ANSWERED_EVERY = 1.0
_LEASE = 5  # seconds
_TELL_EVERY = 2.0


class Asked(NamedTuple):
    """The value of the key `follow/finish`."""

    zxid: int  # that the tree must have reached at least
    keep_sessions: bool
    answered: bool
    waits: bool = False  # the follower has all, but the log is still written to


async def asked(etcd: Etcd, keys: Keyspace) -> tuple[Asked, KeyValue] | None:
    """The current request, and its key. Raises EtcdError, BadValue."""
    found = (await read(etcd, Get(keys.finish))).kvs
    if not found:
        return None
    what = "the request for the end of following"
    members = unpack_json(found[0].value, what)
    try:
        wanted = Asked(
            number(members["zxid"]),
            boolean(members["keep_sessions"]),
            boolean(members["answered"]),
            boolean(members.get("waits", False)),
        )
    except (KeyError, ValueError) as error:
        raise BadValue(f"{what} is wrong: {error!r}") from None
    return wanted, found[0]


class Answering:
    """The running follower's side."""

    def __init__(self, etcd: Etcd, keys: Keyspace) -> None:
        self._etcd = etcd
        self._keys = keys
        self._answered = 0.0
        #: The key's mod_revision when it was last read.
        self.revision = 0

    async def wanted(self, *, waits: bool = False) -> Asked | None:
        """The request; None: there is none. `waits`: as of `Asked`."""
        found = await asked(self._etcd, self._keys)
        if found is None:
            return None
        request, pair = found
        self.revision = pair.mod_revision
        if time.monotonic() - self._answered > _ANSWERED_EVERY:
            value = pack_json(request._replace(answered=True, waits=waits)._asdict())
            guard = Compare(self._keys.finish, pair.mod_revision)
            put = Put(self._keys.finish, value, pair.lease)
            done = await commit(self._etcd, Txn((guard,), (put,)))
            if not done.succeeded:  # it was withdrawn; or our own put has changed it, and its answer was lost
                return None
            self.revision = done.revision
            self._answered = time.monotonic()
        return request


async def finished_by_another(
    etcd: Etcd, keys: Keyspace, there: Position, request: Asked, within: float
) -> bool:
    """Have the follower that runs finish; False: none runs, and the caller takes over. Raises EtcdError."""
    print_progress(f"at zxid 0x{there.zxid:x}: asking the follower that runs on this prefix to finish")
    if await ask(etcd, keys, request, within):
        finished = await position_of(etcd, keys)
        assert finished is not None
        print_finished(finished, request.zxid)
        return True
    print_progress(f"no follower has answered for {within:g} s: this command takes over")
    return False


def print_finished(position: Position, zxid: int = 0) -> None:
    """Print that the tree may be served. Raises Stuck if it lacks the transaction `zxid`."""
    if position.source_zxid is not None and position.source_zxid < zxid:
        raise Stuck(
            f"the tree was finished at the source's zxid 0x{position.source_zxid:x}, and lacks what came"
            f" after it, up to 0x{zxid:x}. If clients went on with the source, start over with --overwrite"
        )
    show(f"finished: zxids go on at 0x{position.zxid:x}", flush=True)


def print_writers(zxid: int) -> None:
    """Print why the cut-over waits."""
    print_progress(
        f"at zxid 0x{zxid:x}: waiting for the end of the log, which is still written to. Stop what writes to"
        " ZooKeeper"
    )


async def ask(etcd: Etcd, keys: Keyspace, request: Asked, within: float) -> bool:
    """Ask a running follower to finish, and wait until it has; False: none answers (any more).

    `within`: seconds in which it has to answer. Raises EtcdError.
    """
    while True:
        try:
            async with kept_lease(etcd, _LEASE) as lease:
                return await _finished(
                    etcd, keys, Put(keys.finish, pack_json(request._asdict()), lease), within
                )
        except EtcdRefused as error:
            if error.kind is not RefusalKind.LEASE_NOT_FOUND:  # it has ended while etcd was out of reach
                raise


async def _put(etcd: Etcd, keys: Keyspace, request: Put) -> None:
    """Put the request, unless the tree is complete."""
    there = await target_of(etcd, keys)
    if there.follows:
        await commit(etcd, Txn((Compare(keys.tree, there.record_mod),), (request,)))


async def _finished(etcd: Etcd, keys: Keyspace, request: Put, within: float) -> bool:
    heard, zxid, revision = time.monotonic(), -1, 0
    told = heard - _TELL_EVERY  # the follower has waited for a while when it says so
    while True:
        position = await position_of(etcd, keys)
        if position is not None and position.finished:
            return True
        found = await asked(etcd, keys)
        if found is None:  # or a follower that has just started has deleted it
            await _put(etcd, keys, request)
        now = time.monotonic()
        if position is not None and position.zxid != zxid:  # it is working, and has not read the request yet
            zxid, heard = position.zxid, now
        if found is not None and found[1].mod_revision != revision:
            revision = found[1].mod_revision
            if found[0].answered:
                heard = now
            if found[0].waits and now - told > _TELL_EVERY:
                print_writers(zxid)
                told = now
        if now - heard > within:
            return False
        await asyncio.sleep(_POLL)
