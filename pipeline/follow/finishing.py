"""How a command requests the cut-over: by a key in etcd, so that the follower may run on any host.

A running follower answers by putting the key again, about once a second, until the tree is complete. If no
follower answers, the command itself follows.
"""

import asyncio
import contextlib
import time
from typing import NamedTuple

from cli.output import show
from pipeline.etcd.load import target_of
from pipeline.etcd.requests import commit, read
from pipeline.follow.output import print_progress
from pipeline.follow.target import Position, position_of
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, Get, Put, Txn
from schema.errors import BadValue
from schema.json_values import boolean, number, pack_json, unpack_json
from schema.keys import Keyspace

_POLL = 0.1  # seconds
_ANSWERED_EVERY = 1.0
_WITHDRAW_WITHIN = 10.0


class Asked(NamedTuple):
    """The value of the key `follow/finish`."""

    zxid: int  # that the tree must have reached at least
    keep_sessions: bool
    answered: bool


async def asked(etcd: Etcd, keys: Keyspace) -> tuple[Asked, int] | None:
    """The current request, and its key's mod_revision. Raises EtcdError, BadValue."""
    found = (await read(etcd, Get(keys.finish))).kvs
    if not found:
        return None
    what = "the request for the end of following"
    members = unpack_json(found[0].value, what)
    try:
        wanted = Asked(
            number(members["zxid"]), boolean(members["keep_sessions"]), boolean(members["answered"])
        )
    except (KeyError, ValueError) as error:
        raise BadValue(f"{what} is wrong: {error!r}") from None
    return wanted, found[0].mod_revision


class Answering:
    """The running follower's side."""

    def __init__(self, etcd: Etcd, keys: Keyspace) -> None:
        self._etcd = etcd
        self._keys = keys
        self._answered = 0.0

    async def wanted(self) -> Asked | None:
        """The request; None: there is none."""
        found = await asked(self._etcd, self._keys)
        if found is None:
            return None
        request, revision = found
        if time.monotonic() - self._answered > _ANSWERED_EVERY:
            value = pack_json(request._replace(answered=True)._asdict())
            guard = Compare(self._keys.finish, revision)
            await commit(self._etcd, Txn((guard,), (Put(self._keys.finish, value),)))
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
        print_finished(finished)
        return True
    print_progress(f"no follower has answered for {within:g} s: this command takes over")
    return False


def print_finished(position: Position) -> None:
    """Print that the tree may be served."""
    show(f"finished: zxids go on at 0x{position.zxid:x}", flush=True)


async def ask(etcd: Etcd, keys: Keyspace, request: Asked, within: float) -> bool:
    """Ask a running follower to finish, and wait until it has; False: none answers (any more).

    `within`: seconds in which it has to answer. If this is cancelled, the request is withdrawn. Raises
    EtcdError.
    """
    try:
        return await _finished(etcd, keys, Put(keys.finish, pack_json(request._asdict())), within)
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WITHDRAW_WITHIN):  # etcd may be out of reach
                await _write(etcd, keys, Delete(keys.finish))
        raise


async def _write(etcd: Etcd, keys: Keyspace, request: Put | Delete) -> None:
    """Put or withdraw the request, unless the tree is complete."""
    there = await target_of(etcd, keys)
    if there.follows:
        await commit(etcd, Txn((Compare(keys.tree, there.record_mod),), (request,)))


async def _finished(etcd: Etcd, keys: Keyspace, request: Put, within: float) -> bool:
    heard, zxid, revision = time.monotonic(), -1, 0
    while True:
        position = await position_of(etcd, keys)
        if position is not None and position.finished:
            return True
        found = await asked(etcd, keys)
        if found is None:  # or a follower that has just started has deleted it
            await _write(etcd, keys, request)
        now = time.monotonic()
        if position is not None and position.zxid != zxid:  # it is working, and has not read the request yet
            zxid, heard = position.zxid, now
        if found is not None and found[1] != revision:
            revision = found[1]
            if found[0].answered:
                heard = now
        if now - heard > within:
            return False
        await asyncio.sleep(_POLL)
