"""Clients of what the history checker does not know: ACLs, quotas, Keeper's operations, expiring nodes.

Two of them work on the same few nodes, each authenticated as a user of its own. The naive ZooKeeper judges
what the log has of it (`naive_judge`), and each answer has to be the one that the log has. It judges reads
at the zxids of their answers (`acl_reads`).
"""

import base64
import hashlib
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from typing_extensions import override

from codec import client as zk
from codec.constants import CreateMode, KeeperOpCode, OpCode, Xid
from codec.jute import OPEN_ACL, Acl
from lab.oracle import requests as oracle
from lab.servers.digest_md5 import respond
from proof.history import CloseSession, History
from proof.history.records import Opened
from proof.history.records import Request as Recorded
from proof.simulation.clients import Address, Client, Clock, Timers
from proof.simulation.knobs import USERS
from proof.simulation.packets import Look
from proof.simulation.transports import ADDRESS

ROOT: Final = "/f"
_LIMITED: Final = f"{ROOT}/limited"
_QUOTA: Final = f"/zookeeper/quota{_LIMITED}"
_LIMITS = (b"count=3,bytes=20", b"countHardLimit=1,byteHardLimit=20", b"countHardLimit=4")
_ANY_VERSION: Final = -1
_ANY_STAT = (-1,) * 11
#: Paths below those that clients share; a create needs the parent.
_PATHS = tuple(f"{ROOT}/{name}" for name in ("a", "b", "a/x", "a/y", "a/x/p", "limited", "limited/1"))
_OWNED: Final = f"{ROOT}/a/x"  # with children that only the first user may delete
#: Those without children: the others stay open to all, or one of the users would soon own everything.
_LEAVES = tuple(f"{ROOT}/{name}" for name in ("b", "a/y", "a/x/p", "limited/1"))
#: What reads look at.
LOOKED_AT: Final = (ROOT, *_PATHS)
_AUTH = (Acl(31, "auth", ""),)
_READ_ONLY = (Acl(1, "world", "anyone"),)
_BY_ADDRESS = (Acl(31, "ip", "10.0.0.0/8"), Acl(1, "world", "anyone"))
_ELSEWHERE = (Acl(31, "ip", "192.168.0.0/16"),)
_BAD = (Acl(31, "digest", "nobody"),)
_SASL_XID: Final = -100  # of no other request


def identity(user: str) -> str:
    """The id of scheme digest, of a user whose password is its name."""
    digest = hashlib.sha1(f"{user}:{user}".encode()).digest()
    return f"{user}:{base64.b64encode(digest).decode()}"


class FeaturesClient(Client):
    """A client that uses ACLs, quotas, budgets, Keeper's operations and expiring nodes."""

    def __init__(
        self, world: Clock, host: Timers, name: str, proxies: Sequence[Address], timeout_ms: int, user: str
    ) -> None:
        super().__init__(world, host, name, proxies, History(), timeout_ms)
        self._user = user
        self._identities: tuple[tuple[str, str], ...] = ()  # that this connection has proven
        self._mix.missing_roots()  # the other clients make them

    @property
    def session_ids(self) -> set[int]:
        """All sessions that it has had."""
        return {record.session for record in self.history.records if isinstance(record, Opened)}

    @override
    def _restore_watches(self) -> None:
        """It has none, but authenticates: by addauth, or SASL, or both."""
        if self._transport is None:
            return
        self._identities = (("ip", ADDRESS),)
        if self._random.random() < 0.9:
            self._transport.give(
                zk.packet(Xid.AUTH, zk.auth("digest", f"{self._user}:{self._user}".encode()))
            )
            self._identities += (("digest", identity(self._user)),)
        if self._random.random() < 0.5:
            self._transport.give(_sasl(b""))

    @override
    def _take(self, frame: bytes) -> None:
        xid = zk.header(frame).xid
        if xid == _SASL_XID:
            challenge = zk.body(frame).buffer()
            if challenge and b"nonce=" in challenge and self._transport is not None:
                self._transport.give(_sasl(respond(challenge, self._user, self._user)))
                self._identities += (("sasl", self._user),)  # of all requests behind this one
        elif xid != Xid.AUTH:
            super()._take(frame)

    @override
    def _choose(self) -> list[Recorded]:
        rng = self._random
        if rng.random() < 0.02:
            return [CloseSession()]
        if self._is_urged:
            return [zk.create(f"{ROOT}/u-", b"", CreateMode.EPHEMERAL_SEQUENTIAL)]  # type: ignore[list-item]
        return [self._any() for _ in range(rng.choice((1, 1, 3)))]

    def _any(self) -> Recorded:
        rng = self._random
        if rng.random() < 0.7:
            return any_request(rng)  # type: ignore[return-value]
        opcode = rng.choice((OpCode.GET_DATA, OpCode.GET_CHILDREN2, OpCode.GET_ACL))
        return Look(opcode, rng.choice(LOOKED_AT), self._identities)  # type: ignore[return-value]


def featured(world: Clock, host: Timers, proxies: Sequence[Address], timeout_ms: int) -> list[FeaturesClient]:
    """The clients of a world."""
    return [FeaturesClient(world, host, user, proxies, timeout_ms, user) for user in USERS]


def any_request(rng: Random) -> zk.Request[Any]:
    """One request, or a multi."""
    request = _any(rng)
    number = oracle.opcode(request)
    kind = KeeperOpCode(number) if number in _OF_KEEPER else OpCode(number)
    body = oracle.encode_body(request)
    return zk.Request(kind, body, zk.nothing)  # its answer is judged by what the log has


_OF_KEEPER = frozenset(KeeperOpCode)


def _any(rng: Random) -> oracle.Request:
    if rng.random() < 0.1:
        return oracle.Multi(tuple(_part(rng) for _ in range(rng.randint(1, 4))))
    if rng.random() < 0.15:
        return _of_quota(rng)
    if rng.random() < 0.15:
        path = rng.choice((_OWNED, *_LEAVES))
        return oracle.SetAcl(path, any_acl(rng, path), rng.choice((_ANY_VERSION, _ANY_VERSION, 0)))
    if rng.random() < 0.05:
        return oracle.DeleteContainer(rng.choice(_PATHS))
    return _part(rng)


def any_acl(rng: Random, path: str) -> tuple[Acl, ...]:
    """An ACL for a node."""
    if path == _OWNED:
        return rng.choice((OPEN_ACL, (Acl(31, "digest", identity(USERS[0])), *_READ_ONLY)))
    if path not in _LEAVES:
        return OPEN_ACL if rng.random() < 0.95 else _BAD
    users = tuple(Acl(31, "digest", identity(user)) for user in USERS)
    by_sasl = (Acl(31, "sasl", rng.choice(USERS)), Acl(1, "world", "anyone"))
    return rng.choice(
        (*[OPEN_ACL] * 8, users, users[:1], by_sasl, _AUTH, _READ_ONLY, _BY_ADDRESS, _ELSEWHERE, _BAD)
    )


def _part(rng: Random) -> oracle.Request:
    """A request that may be a part of a multi."""
    path = rng.choice(_PATHS)
    version = rng.choice((_ANY_VERSION, _ANY_VERSION, 0, 1))
    data = bytes(rng.choice((0, 1, 9, 30)))
    match rng.randrange(13):
        case 0 | 1 | 2:
            mode = rng.choice((0, oracle.EPHEMERAL, oracle.EPHEMERAL, oracle.SEQUENTIAL))
            if mode == oracle.SEQUENTIAL:
                path = f"{ROOT}/limited/n-"
            return oracle.Create(path, data, mode, any_acl(rng, path), with_stat=True)
        case 3:
            return oracle.CreateContainer(path, data)
        case 4:
            return oracle.CreateTtl(path, data, rng.choice((1, 2_000, 20_000)))
        case 5:
            return oracle.Delete(path, version)
        case 6 | 7:
            return oracle.SetData(path, data, version)
        case 8:
            return oracle.CheckNotExists(path, version)
        case 9:
            return oracle.CreateIfNotExists(path, data, 0, any_acl(rng, path))
        case 10:
            return oracle.RemoveRecursive(path, rng.choice((1, 3, 100)))
        case 11:
            stat = (*_ANY_STAT[:9], rng.choice((-1, 0)), -1)  # the number of children
            return oracle.CheckStat(path, version, stat)
    return oracle.TryRemove(path, version)


def _of_quota(rng: Random) -> oracle.Request:
    """A node of a quota, its parents first as chance has it."""
    limits = f"{_QUOTA}/zookeeper_limits"
    match rng.randrange(6):
        case 0:
            return oracle.Create(f"/zookeeper/quota{ROOT}")
        case 1:
            return oracle.Create(_QUOTA)
        case 2:
            return oracle.Create(limits, rng.choice(_LIMITS))
        case 3:
            return oracle.Create(f"{_QUOTA}/zookeeper_stats")
        case 4:
            return oracle.SetData(limits, rng.choice(_LIMITS))
    return oracle.Create(ROOT) if rng.random() < 0.8 else oracle.Delete(limits)


def _sasl(token: bytes) -> bytes:
    return zk.packet(_SASL_XID, zk.sasl(token))
