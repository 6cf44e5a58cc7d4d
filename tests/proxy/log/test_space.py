"""The reserve of etcd's quota: when it is touched, and which requests are refused then."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codec import client as zk
from codec.constants import CreateMode, ErrorCode, KeeperOpCode, OpCode
from codec.jute import INT, OPEN_ACL, Acl, pack_string
from proxy.log.append import space
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import Pending
from proxy.log.append.sent import EntryHeader
from proxy.log.append.space import Space
from proxy.log.status import Stats
from proxy.state.capture import new_machine
from proxy.state.node import Node
from proxy.state.ops import EXTENDED
from proxy.state.tree import NODE_SIZE
from schema.entry import Entry, Kind, Request, encode_terms
from schema.record import SnapshotRef
from tests import golden

SCRIPT = Path(__file__).with_name("space.txt")
_MIB = 1 << 20
_SNAPSHOT = SnapshotRef("1-a", 100, "a", 1, 1, 0, 10, 1, 5, 7)
_LOCK = zk.create("/a/lock-", bytes(882), CreateMode.EPHEMERAL_SEQUENTIAL)  # 1,000 bytes
_MODES = {
    "": CreateMode.PERSISTENT,
    "sequential": CreateMode.PERSISTENT_SEQUENTIAL,
    "ephemeral": CreateMode.EPHEMERAL,
}


class World(logging.Handler):
    """A proxy's outbox, on a tree with /a of 1,000 bytes and /b, and an etcd with a quota of 100 MiB.

    Requests are those of session 1, which has used up its share of growth, if they name no other one.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.machine = new_machine(1)
        self.stats = Stats()
        self.reserve(10)
        self.said: list[str] = []
        self.entries = 0
        self.apply([Request(Kind.OPEN, session, 0, (), encode_terms(4000, bytes(16))) for session in (1, 2)])
        made = [zk.create("/a", bytes(1000)), zk.create("/b")]
        self.apply([Request(Kind.CLIENT, 1, each.opcode, (), each.body) for each in made])
        assert set(self.machine.tree.nodes) > {"/a", "/b"}

    def reserve(self, percent: int) -> None:
        self.space = Space(percent, self.machine, self.stats)
        self.outbox = Outbox(self.space)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.levelname} {record.getMessage()}")

    def apply(self, entry: list[Request]) -> None:
        self.entries += 1
        self.machine.apply("own", self.entries, Entry(1, 0, 0, 0, entry))

    def learn(self, words: Sequence[str]) -> str:
        """What etcd says, in MiB: in use, and by name its quota, the snapshot's size, the log since then."""
        known = dict(zip(words[1::2], map(float, words[2::2]), strict=True))
        quota = int(known.get("quota", 100) * _MIB)
        snapshot = known.get("snapshot")
        current = None if snapshot is None else _SNAPSHOT._replace(bytes=int(snapshot * _MIB))
        in_use, log_bytes = int(float(words[0]) * _MIB), int(known.get("log", 0) * _MIB)
        seconds = self.space.learned(in_use, quota, current, log_bytes)
        pressure = self.space.pressure
        if pressure is None:
            return f"the next look in {seconds:.0f} s"
        what = [f"{name} {getattr(pressure, name) / _MIB:.1f}" for name in ("reserve", "room", "snapshot")]
        return f"pressed: {', '.join(what)}" + ", the last room" * pressure.is_last

    def goes(
        self, request: zk.Request[object], session: int, kind: int = Kind.CLIENT, *, twice: bool = True
    ) -> str:
        """Whether the request is sent, decoded or not; else it is refused with SYSTEMERROR."""
        operation = EXTENDED.writes[request.opcode]
        outcomes = set()
        for fields in (None, operation.decode(request.body, 0)[0])[: 1 + twice]:
            self.space._given_back.clear()  # it is not applied
            self.outbox.submit(Pending(kind, session, request.opcode, (), request.body, fields))
            sent = self.outbox.cut(EntryHeader(1, 0, 0, 0))
            if sent is not None:
                self.outbox.settle(sent.number)
            else:
                ((_, error),) = self.outbox.take_refused()
                assert error == ErrorCode.SYSTEM_ERROR
            outcomes.add("refused" if sent is None else "appended")
        (outcome,) = outcomes
        return outcome

    def answer(self, words: Sequence[str]) -> list[str]:
        """Do what a script says."""
        answer: list[str] = []
        match words:
            case ["reserve", percent]:
                self.reserve(int(percent))
            case ["in", "use", *known]:
                answer = [self.learn(known)]
            case ["nearly", "full"]:
                self.learn(["91"])
                self.said.clear()  # the first case has the words
            case ["tree", size]:
                self.machine.tree.data_size = int(float(size) * _MIB)
            case ["applied", size]:
                self.stats.applied_bytes += int(float(size) * _MIB)
            case ["locks", session, count]:
                lock = Request(Kind.CLIENT, int(session), _LOCK.opcode, (), _LOCK.body)
                self.apply([lock] * int(count))
            case ["end", session]:
                self.apply([Request(Kind.CLIENT, int(session), OpCode.CLOSE_SESSION, (), b"")])
            case ["other", "kinds", *request]:
                kinds = Kind.OPEN, Kind.ATTACH, Kind.CLOSE, Kind.CARRY_OVER, Kind.NODE_DUE, Kind.EPOCH
                answer = sorted({self.goes(_request(request), 1, kind) for kind in kinds})
            case ["refused"]:
                answer = [str(self.stats.growth_refused)]
            case ["session", session, *request]:
                answer = [self.goes(_request(request), int(session), twice=False)]
            case ["needs", "an", "entry"]:
                answer = [str(self.space.needs_entry())]
            case request:
                self.space._spent[1] = self.space._share
                answer = [self.goes(_request(request), 1)]
        said, self.said = self.said, []
        return [*said, *answer]


def _request(words: Sequence[str]) -> zk.Request[object]:
    """A request, or several of one multi with ";" between them. Sizes are bytes of data."""

    def plain(opcode: int, body: bytes) -> zk.Request[object]:
        return zk.Request(opcode, body, lambda reader: None)  # type: ignore[arg-type]

    match words:
        case ["multi", *parts]:
            text = " ".join(parts).split(" ; ")
            return zk.multi([_request(part.split()) for part in text])
        case ["create", path, *mode]:
            size = int(mode.pop()) if mode and mode[-1].isdigit() else 0
            return zk.create(path, bytes(size), _MODES[" ".join(mode)])
        case ["lock"]:
            return _LOCK
        case ["create-container", path]:
            return zk.create(path, mode=CreateMode.CONTAINER)
        case ["create-ttl", path]:
            return zk.create(path, mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=1000)
        case ["create-if-missing", path]:
            return plain(KeeperOpCode.CREATE_IF_NOT_EXISTS, zk.create(path).body)
        case ["set", path, size]:
            return zk.set_data(path, bytes(int(size)))
        case ["set-acl", path]:
            return zk.set_acl(path, OPEN_ACL)
        case ["check", path]:
            return zk.check(path)
        case ["delete", path]:
            return zk.delete(path)
        case ["delete-container", path]:
            return plain(OpCode.DELETE_CONTAINER, pack_string(path))
        case ["delete-all", path]:
            return plain(KeeperOpCode.REMOVE_RECURSIVE, pack_string(path) + INT.pack(10))
        case ["sync"]:
            return plain(OpCode.SYNC, pack_string("/"))
        case ["close"]:
            return plain(OpCode.CLOSE_SESSION, b"")
    raise AssertionError(words)


@golden.one_by_one(SCRIPT)
def test_script(case: golden.Case) -> None:
    world = World()
    space.log.addHandler(world)
    try:
        golden.check(SCRIPT, case, world.answer)
    finally:
        space.log.removeHandler(world)


def test_the_bytes_of_acls_are_growth() -> None:
    world = World()
    world.learn(["91"])
    assert world.answer(["set-acl", "/a"]) == ["appended"]
    size = world.machine.tree.size
    long = (Acl(31, "digest", "u:" + "x" * 350_000),)
    for request in (zk.set_acl("/a", long), zk.create("/c", acl=long), zk.multi([zk.create("/c", acl=long)])):
        assert world.goes(request, 2) == "refused"
    request = zk.set_acl("/a", long)
    world.apply([Request(Kind.CLIENT, 1, request.opcode, (), request.body)])
    assert world.machine.tree.size - size == 12 + len("digest") + 350_002
    assert world.goes(zk.set_acl("/a", OPEN_ACL), 2) == "appended"


def test_a_refused_request_behind_others_is_counted_once() -> None:
    world = World()
    world.learn(["91"])
    for words in (["sync"], ["create", "/c", "200000"]):
        request = _request(words)
        world.outbox.submit(Pending(Kind.CLIENT, 1, request.opcode, (), request.body))
    assert world.outbox.cut(EntryHeader(1, 0, 0, 0)) is not None
    assert world.outbox.cut(EntryHeader(1, 0, 0, 0)) is None
    assert world.stats.growth_refused == 1


def test_nothing_is_kept_for_a_session_that_has_ended() -> None:
    world = World()
    world.learn(["91"])
    assert world.answer(["session", "2", "create", "/c", "900"]) == ["appended"]
    assert list(world.space._spent) == [2]
    world.answer(["end", "2"])
    world.learn(["91"])
    assert not world.space._spent


class _Counted(dict[str, Node]):
    looks = 0

    def get(self, path: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(path, default)


def test_of_the_ephemeral_nodes_of_a_session_each_request_counts_some() -> None:
    world = World()
    world.learn(["91"])
    tree = world.machine.tree
    lock = zk.create("/a/lock-", b"", CreateMode.EPHEMERAL_SEQUENTIAL)
    world.apply([Request(Kind.CLIENT, 2, lock.opcode, (), lock.body)] * 640)
    nodes = tree.nodes = _Counted(tree.nodes)
    for _ in range(11):
        nodes.looks = 0
        assert world.goes(lock, 2, twice=False) == "appended"
        assert nodes.looks <= 64
    owned = sum(NODE_SIZE + len(path) for path in tree.ephemerals[2])
    sent = 11 * (NODE_SIZE + len("/a/lock-"))
    assert world.space._new_ephemerals[2].size == owned + sent
