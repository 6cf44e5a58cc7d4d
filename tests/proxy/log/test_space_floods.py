"""Floods of every kind of request at a nearly full etcd, which never raises its alarm."""

import random
from collections.abc import Iterator
from itertools import count

import pytest

from codec import client as zk
from codec.constants import CreateMode, OpCode
from codec.packets import MULTI_HEADER
from lab.oracle.requests import body_of
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import Pending
from proxy.log.append.sent import EntryHeader
from proxy.log.append.space import JUDGED_AT_ONCE, Space
from proxy.log.status import Stats
from proxy.state.capture import new_machine
from proxy.state.ops import EXTENDED
from schema.entry import Entry, Identity, Kind, Request, encode_terms
from schema.record import SnapshotRef

_MIB = 1 << 20
_QUOTA = 40 * _MIB
_PER_ENTRY = 250  # bytes that etcd adds to an entry
_LOOK = 100  # entries between two looks at etcd's size
_LONG = 100_000
_HASH = bytes(16)
_SNAPSHOT = SnapshotRef("1-a", 100, "a", 1, 1, 0, 10, 1, 5, 7)
_NAMES = random.Random(1).randbytes(4 * _LONG).hex()
_IDENTITIES = tuple(Identity("digest", _NAMES[at : at + 1000]) for at in range(0, 8000, 1000))

_PATHS = ("/a", "/full", "/full/child", *(f"/n{number}" for number in range(2000)))


class World:
    """A proxy's outbox and state, and an etcd that no compaction makes smaller."""

    def __init__(self, free: float) -> None:
        """`free`: MiB."""
        self.random = random.Random(2)
        self.machine = new_machine(1)
        self.stats = Stats()
        self.space = Space(10, self.machine, self.stats)
        self.outbox = Outbox(self.space)
        self.in_use = 0
        self.entries = self.appended = 0
        self.sessions = count(1)
        self.session = 0
        self.open()
        self.apply([_client(self.session, zk.create(path, bytes(1000))) for path in _PATHS])
        self.in_use = _QUOTA - int(free * _MIB)
        self.look()

    def apply(self, requests: list[Request]) -> None:
        self.entries += 1
        self.machine.apply("own", self.entries, Entry(1, 0, 0, 0, requests))

    def open(self) -> bool:
        """Open another session, as a client that has used up its share does."""
        session = next(self.sessions)
        done = self.flood([Pending(Kind.OPEN, session, 0, (), encode_terms(4000, _HASH))])
        self.session = session if done else self.session
        return done

    def look(self) -> None:
        self.space.learned(self.in_use, _QUOTA, _SNAPSHOT, 0)

    def flood(self, requests: list[Pending]) -> bool:
        """Send requests at once; returns whether any was appended. What is appended is applied."""
        for pending in requests:
            self.outbox.submit(pending)
        before = self.appended
        while (sent := self.outbox.cut(EntryHeader(1, 0, 0, 0))) is not None or self.outbox.has_next:
            if sent is None:
                continue
            self.appended += 1
            self.in_use += len(sent.value) * 5 // 4 + _PER_ENTRY
            assert self.in_use < _QUOTA, "etcd is full"
            self.apply([Request(each.kind, each.session_id, *_rest(each)) for each in sent.requests])
            self.stats.applied_bytes += len(sent.value)
            self.outbox.settle(sent.number)
            if not self.appended % _LOOK:
                self.look()
        self.outbox.take_refused()
        return self.appended > before

    def name(self, size: int) -> str:
        """Other letters each time, which do not compress."""
        return "".join(
            _NAMES[at : at + 1000] for at in (self.random.randrange(7 * _LONG) for _ in range(size // 1000))
        ) + str(self.random.random())


def _rest(pending: Pending) -> tuple[int, tuple[Identity, ...], bytes]:
    return pending.opcode, pending.identities, pending.body


def _client(session: int, request: zk.Request[object]) -> Request:
    return Request(Kind.CLIENT, session, request.opcode, (), request.body)


_WRITES = [opcode for opcode in EXTENDED.writes if opcode != OpCode.MULTI]


def _body(opcode: int, path: str, data: str) -> bytes:
    """That of a write. What cannot be compressed is in its path and its data; closeSession has neither."""
    servers = dict.fromkeys(("joining", "leaving", "members"), path)
    flags = {"flags": CreateMode.EPHEMERAL} if opcode == OpCode.CREATE2 else {}
    return body_of(opcode, path=path, data=data.encode(), **servers, **flags) or path.encode()


def _part(opcode: int, body: bytes) -> bytes:
    return MULTI_HEADER.pack(opcode, False, -1) + body


def _multi(*parts: bytes) -> bytes:
    return b"".join(parts) + MULTI_HEADER.pack(-1, True, -1)


def _bodies(world: World) -> Iterator[tuple[int, bytes]]:
    """Each kind of request, in turn: long and short, of nodes that exist and of others, and in multis."""
    for number in count():
        for opcode in _WRITES:
            for size in (0, _LONG):
                missing = "/" + world.name(size)
                for path in ("/a", "/full", f"/n{number}", missing):
                    yield opcode, _body(opcode, path, world.name(size))
                part = _part(opcode, _body(opcode, "/full", world.name(size)))
                deletes = _part(OpCode.DELETE, zk.delete("/full").body)
                yield OpCode.MULTI, _multi(deletes, part, _part(OpCode.DELETE, zk.delete(missing).body))
        yield OpCode.MULTI, world.name(_LONG).encode()  # it cannot be decoded


def _flood(world: World, bodies: Iterator[tuple[int, bytes]], identities: tuple[Identity, ...]) -> None:
    """Send many times what is free, each time with a new session if one can be had."""
    for _ in range(8):
        for _ in range(4):
            requests = [next(bodies) for _ in range(12)]
            world.flood(
                [Pending(Kind.CLIENT, world.session, opcode, identities, body) for opcode, body in requests]
            )
        world.open()


@pytest.mark.parametrize(
    ("free", "identities"),
    [
        pytest.param(2.5, (), marks=pytest.mark.long),
        (2.5, _IDENTITIES),
        (0.5, ()),
        pytest.param(0.5, _IDENTITIES, marks=pytest.mark.long),
    ],
    ids=["2.5", "2.5, long identities", "0.5", "0.5, long identities"],
)
def test_no_mixture_of_requests_makes_etcd_full(free: float, identities: tuple[Identity, ...]) -> None:
    world = World(free)
    _flood(world, _bodies(world), identities)
    assert world.in_use < _QUOTA


@pytest.mark.long
@pytest.mark.parametrize(("size", "free"), [(400, 0.45), (_LONG, 1.9)])
@pytest.mark.parametrize("opcode", _WRITES)
def test_no_request_makes_etcd_full(opcode: int, size: int, free: float) -> None:
    """Of a node that does not exist, of one that cannot be deleted, and beside one in a multi that fails."""
    world = World(free)

    def bodies() -> Iterator[tuple[int, bytes]]:
        while True:
            missing = "/" + world.name(size)
            yield opcode, _body(opcode, missing, world.name(size))
            yield opcode, _body(opcode, "/full", world.name(size))
            parts = [_part(OpCode.DELETE, zk.delete(path).body) for path in ("/a", "/n1", missing)]
            yield OpCode.MULTI, _multi(*parts, _part(opcode, _body(opcode, missing, "")))

    _flood(world, bodies(), _IDENTITIES if size else ())
    assert world.in_use < _QUOTA


@pytest.mark.long
def test_no_number_of_sessions_makes_etcd_full() -> None:
    world = World(1.9)
    while world.open():
        attach = Pending(Kind.ATTACH, world.session, 0, (), encode_terms(4000, _HASH))
        close = Pending(Kind.CLIENT, world.session, OpCode.CLOSE_SESSION, (), b"")
        world.flood([attach, close])
    for _ in range(20_000):
        world.flood([Pending(Kind.ATTACH, 1, 0, (), encode_terms(4000, _HASH))])
    assert world.flood([Pending(Kind.CLIENT, 1, OpCode.CLOSE_SESSION, (), b"")])


def _deletes(world: World, *paths: str, kind: int = OpCode.DELETE) -> bool:
    return all(
        world.flood([Pending(Kind.CLIENT, world.session, kind, (Identity("x509", 200 * "n"),), body)])
        for body in (zk.delete(path).body for path in paths)
    )


@pytest.mark.parametrize("free", [1.9, 0.9])
def test_a_full_tree_can_be_emptied(free: float) -> None:
    world = World(free)
    assert world.space.pressure is not None
    assert world.space.pressure.is_last
    assert _deletes(world, *(f"/n{number}" for number in range(500)))
    parts = [_part(OpCode.DELETE, zk.delete(f"/n{number}").body) for number in range(500, 1000)]
    assert world.flood([Pending(Kind.CLIENT, world.session, OpCode.MULTI, (), _multi(*parts))])
    assert not world.machine.tree.nodes.keys() & {f"/n{number}" for number in range(1000)}


def test_a_node_is_given_back_once() -> None:
    """A delete that fails, again and again, takes space; after a change it may succeed."""
    world = World(0.6)
    assert _deletes(world, "/full")
    assert not _deletes(world, "/full")
    assert _deletes(world, "/full/child", "/full")
    assert "/full" not in world.machine.tree.nodes


@pytest.mark.parametrize("free", [3.5, 1])
def test_a_request_of_very_many_parts_is_not_judged(free: float) -> None:
    world = World(free)
    assert world.space.pressure is not None
    part = _part(OpCode.CHECK, zk.check("/a").body)
    body = _multi(part * (JUDGED_AT_ONCE // len(part) + 1))
    assert not world.flood([Pending(Kind.CLIENT, world.session, OpCode.MULTI, (), body)])
