"""The reserve of etcd's quota: when it is touched, and which requests are refused then."""

import logging

import pytest

from codec.constants import CreateMode, ErrorCode, KeeperOpCode, OpCode
from codec.jute import INT, OPEN_TO_ALL, pack_string
from codec.packets import decode_create
from lab.client import requests
from proxy.log.append.outbox import Header, Outbox
from proxy.log.append.pending import Pending
from proxy.log.append.space import Pressure, Space
from proxy.log.stats import Stats
from proxy.state.capture import new_machine
from proxy.state.ops import EXTENDED
from schema.entry import Entry, Kind, Request, encode_open
from schema.record import SnapshotRef

_MIB = 1 << 20
_QUOTA = 100 * _MIB
_SNAPSHOT = SnapshotRef("1-a", 100, "a", 1, 1, 2000, 10, 1, 5, 7)


class Proxy:
    """A proxy's outbox, on a tree with /a of 1,000 bytes and /b."""

    def __init__(self, percent: int = 10) -> None:
        self.machine = new_machine(1)
        self.stats = Stats()
        self.space = Space(percent, self.machine, self.stats)
        self.outbox = Outbox(self.space)
        made = [requests.create("/a", bytes(1000)), requests.create("/b")]
        self.entries = 0
        self.apply([Request(Kind.OPEN, session, 0, (), encode_open(4000, bytes(16))) for session in (1, 2)])
        self.apply([Request(Kind.CLIENT, 1, each.opcode, (), each.body) for each in made])
        assert set(self.machine.tree.nodes) > {"/a", "/b"}

    def apply(self, entry: list[Request]) -> None:
        self.entries += 1
        self.machine.apply("own", self.entries, Entry(1, 0, 0, 0, entry))

    def create_ephemerals(self, session: int, count: int) -> None:
        request = Request(Kind.CLIENT, session, _EPHEMERAL.opcode, (), _EPHEMERAL.body)
        before = len(self.machine.tree.nodes)
        self.apply([request] * count)
        assert len(self.machine.tree.nodes) == before + count

    def use_up_share(self) -> None:
        """Of growth, by session 1."""
        for request in (_LOG_ENTRY, requests.set_acl("/a", OPEN_TO_ALL)):
            while self.goes(request):
                pass

    def end(self, session: int) -> None:
        self.apply([Request(Kind.CLIENT, session, OpCode.CLOSE_SESSION, (), b"")])

    def learn(
        self, in_use: int, quota: int = _QUOTA, current: SnapshotRef | None = None, log_bytes: int = 0
    ) -> float:
        return self.space.learned(in_use, quota, current, log_bytes)

    def is_pressed(self) -> bool:
        return self.space.pressure is not None

    def goes(
        self,
        request: requests.Request[object],
        kind: int = Kind.CLIENT,
        fields: object = None,
        session: int = 1,
    ) -> bool:
        """Whether the request is sent; else it is refused with SYSTEMERROR."""
        self.outbox.submit(Pending(kind, session, request.opcode, (), request.body, fields))
        sent = self.outbox.cut(Header(1, 0, 0, 0))
        if sent is not None:
            self.outbox.settle(sent.number)
            return True
        ((_, error),) = self.outbox.take_refused()
        assert error == ErrorCode.SYSTEM_ERROR
        return False


_LARGE = bytes(133_000)  # more than one session's share, an eightieth of the reserve
_GROWS = requests.create("/c", _LARGE)
_SYNC = requests.Request(OpCode.SYNC, b"\0\0\0\1/", lambda reader: None)
_CLOSE = requests.Request(OpCode.CLOSE_SESSION, b"", lambda reader: None)


def _of_keeper(opcode: KeeperOpCode, body: bytes) -> requests.Request[None]:
    return requests.Request(opcode, body, lambda reader: None)  # type: ignore[arg-type]


def test_only_what_makes_the_tree_grow_is_refused() -> None:
    proxy = Proxy()
    proxy.learn(91 * _MIB)
    small, large = requests.set_data("/a", bytes(1000)), requests.set_data("/a", _LARGE)
    for request, goes in (
        (_GROWS, False),
        (requests.create_container("/c", _LARGE), False),
        (requests.create_ttl("/c", 1000, _LARGE), False),
        (small, True),
        (large, False),
        (requests.set_data("/missing", b"x"), True),  # its answer is NONODE
        (requests.delete("/a"), True),
        (_SYNC, True),
        (_CLOSE, True),
        (requests.multi([requests.create("/c"), requests.delete("/a")]), True),
        (requests.multi([_GROWS, requests.delete("/a")]), False),
        (requests.multi([small, requests.set_data("/b", _LARGE)]), False),
        # A multi may have deleted the node before.
        (requests.multi([requests.delete("/b"), requests.create("/b", _LARGE)]), False),
    ):
        assert proxy.goes(request) is goes, request
    assert not proxy.goes(_GROWS, fields=decode_create(_GROWS.body, 0)[0])
    for kind in (Kind.OPEN, Kind.ATTACH, Kind.CLOSE, Kind.CARRY_OVER, Kind.EPOCH):
        assert proxy.goes(_GROWS, kind)
    assert proxy.stats.growth_refused == 8


def test_a_create_of_a_node_that_exists_is_not_refused() -> None:
    """Clients create what may be missing, again at each start."""
    proxy = Proxy()
    proxy.learn(91 * _MIB)
    if_not_exists = _of_keeper(KeeperOpCode.CREATE_IF_NOT_EXISTS, requests.create("/a", _LARGE).body)
    for request, goes in (
        (requests.create("/a", _LARGE), True),
        (requests.create("/a", _LARGE, CreateMode.EPHEMERAL), True),
        (requests.create_container("/a", _LARGE), True),
        (requests.create_ttl("/a", 1000, _LARGE), True),
        (if_not_exists, True),
        (requests.create("/a", _LARGE, CreateMode.PERSISTENT_SEQUENTIAL), False),
        (requests.create("/a/missing", _LARGE), False),
    ):
        assert proxy.goes(request) is goes, request


def test_what_is_left_for_one_snapshot_is_for_what_makes_the_tree_smaller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    proxy = Proxy()
    current = _SNAPSHOT._replace(bytes=16 * _MIB // 5)
    proxy.machine.tree.data_size = 4 * _MIB
    same = requests.set_data("/a", bytes(1000))
    proxy.learn(91 * _MIB, current=current)
    assert proxy.goes(same)
    proxy.stats.applied_bytes += _MIB // 4  # the log shows it before etcd's next answer
    proxy.use_up_share()
    assert not proxy.goes(same)
    pressure = proxy.space.pressure
    assert pressure is not None
    assert pressure.is_last
    remove_recursive = _of_keeper(KeeperOpCode.REMOVE_RECURSIVE, pack_string("/a") + INT.pack(10))
    delete_container = requests.Request(OpCode.DELETE_CONTAINER, pack_string("/b"), lambda reader: None)
    for request, goes in (
        (requests.set_data("/a", bytes(400)), True),
        (requests.set_data("/a", bytes(999)), False),  # its entry takes more than it gives back
        (requests.delete("/a"), True),
        (remove_recursive, True),
        (delete_container, True),
        (requests.delete("/missing"), True),  # its answer is NONODE
        (requests.multi([requests.delete("/missing"), requests.delete("/missing/too")]), True),
        (requests.multi([requests.create("/c"), requests.delete("/a")]), True),
        (requests.set_data("/a", b""), True),
        (requests.set_data("/missing", b""), True),
        (requests.multi([requests.set_data("/b", b""), requests.delete("/missing")]), True),
        (_SYNC, True),
        (_CLOSE, True),
        (_GROWS, False),
        (requests.create("/a"), True),  # it exists
        (requests.create("/a", b"x"), False),
        (requests.create("/a", b"", CreateMode.PERSISTENT_SEQUENTIAL), False),
        (requests.create("/missing/too"), False),
        (requests.set_acl("/a", OPEN_TO_ALL), False),
        (requests.multi([requests.check("/a")]), False),
        (requests.multi([requests.set_data("/a", b"x"), requests.create("/c", bytes(700))]), False),
        (requests.multi([same, requests.delete("/missing")]), False),
    ):
        proxy.use_up_share()
        assert proxy.goes(request) is goes, request
        proxy.use_up_share()
        decode = EXTENDED.writes[request.opcode].decode
        assert proxy.goes(request, fields=decode(request.body, 0)[0]) is goes, request
    for kind in (Kind.OPEN, Kind.ATTACH, Kind.CLOSE, Kind.CARRY_OVER, Kind.NODE_DUE):
        assert proxy.goes(same, kind)
    proxy.use_up_share()
    proxy.learn(90 * _MIB, current=current)
    assert not proxy.goes(same)  # so that it does not come and go
    proxy.learn(89 * _MIB, current=current)
    assert proxy.goes(same)
    assert not proxy.goes(_GROWS)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]
    assert proxy.space.pressure is not None
    assert not proxy.space.pressure.is_last


_EPHEMERAL = requests.create("/a/lock-", bytes(882), CreateMode.EPHEMERAL_SEQUENTIAL)  # 1,000 bytes
_SHARE = 131  # of them fit into one session's share, an eightieth of the reserve


def test_each_session_may_create_ephemeral_nodes_up_to_its_share() -> None:
    """Without them ClickHouse's tables would stay read-only after a restart, and nothing would free space."""
    proxy = Proxy()
    for session in (1, 2):
        proxy.create_ephemerals(session, 3)  # before the reserve was touched: these do not count
    proxy.learn(91 * _MIB)
    with_check = requests.multi([requests.check("/b"), _EPHEMERAL, requests.set_data("/b", b"")])
    for request in (_EPHEMERAL, requests.create("/lock", b"", CreateMode.EPHEMERAL), with_check):
        assert proxy.goes(request), request
    assert not proxy.goes(requests.multi([_EPHEMERAL, _GROWS]))
    proxy.create_ephemerals(1, _SHARE - 1)
    assert proxy.goes(_EPHEMERAL)
    assert not proxy.goes(requests.multi([_EPHEMERAL, _EPHEMERAL]))
    proxy.create_ephemerals(1, 1)
    assert not proxy.goes(_EPHEMERAL)
    assert proxy.goes(_EPHEMERAL, session=2)
    proxy.end(1)
    assert proxy.goes(_EPHEMERAL)
    assert not proxy.goes(requests.create("/large", bytes(200_000), CreateMode.EPHEMERAL))


_LOG_ENTRY = requests.create("/a/log-", bytes(873), CreateMode.PERSISTENT_SEQUENTIAL)
_ENTRY_SIZE = 980


def test_each_session_may_make_the_tree_grow_by_its_share() -> None:
    """ClickHouse's DROP PARTITION, which gives space back, creates an entry in the table's log."""
    proxy = Proxy()
    proxy.learn(91 * _MIB)
    for _ in range(_SHARE + 2):
        assert proxy.goes(_LOG_ENTRY)
    for request in (
        _LOG_ENTRY,
        requests.multi([_EPHEMERAL, _LOG_ENTRY]),
        requests.set_data("/b", bytes(999)),
    ):
        assert not proxy.goes(request), request
    assert proxy.goes(_EPHEMERAL)  # its share is another one
    assert proxy.goes(_LOG_ENTRY, session=2)
    proxy.create_ephemerals(1, 1)
    ephemeral = next(iter(proxy.machine.tree.ephemerals[1]))
    for request in (requests.delete(ephemeral), requests.set_data("/b", b"")):
        assert proxy.goes(request)
    assert not proxy.goes(_LOG_ENTRY)  # neither gave space back that lasts
    assert not proxy.goes(requests.multi([requests.delete(ephemeral), requests.create("/c", bytes(700))]))
    assert proxy.goes(requests.delete("/a"))  # about as large
    assert proxy.goes(_LOG_ENTRY)
    assert not proxy.goes(_LOG_ENTRY)
    proxy.end(1)
    proxy.learn(91 * _MIB)
    assert proxy.goes(_LOG_ENTRY)  # nothing is kept of a session that has ended


def test_all_sessions_together_may_make_the_tree_grow_by_a_tenth_of_the_reserve() -> None:
    proxy = Proxy()
    proxy.learn(91 * _MIB)
    proxy.machine.tree.data_size += _MIB - 1000
    assert proxy.goes(_LOG_ENTRY)
    proxy.machine.tree.data_size += _ENTRY_SIZE
    assert not proxy.goes(_LOG_ENTRY)
    assert not proxy.goes(_LOG_ENTRY, session=2)
    proxy.machine.tree.data_size -= _ENTRY_SIZE
    assert proxy.goes(_LOG_ENTRY)
    proxy.learn(100 * _MIB - 4 * _MIB + 1)
    assert not proxy.goes(_LOG_ENTRY)  # what is left is for snapshots


def test_in_the_last_room_a_session_may_use_its_share_for_what_does_not_grow() -> None:
    """Sets of equal size, creates of nodes that exist, and the small growth that DROP PARTITION needs."""
    proxy = Proxy()
    proxy.learn(100 * _MIB - 4 * _MIB - _MIB // 2, current=_SNAPSHOT._replace(bytes=4))
    assert proxy.space.pressure is not None
    assert proxy.space.pressure.is_last
    for request in (requests.create("/a", b"x"), requests.set_data("/a", bytes(1000)), _LOG_ENTRY):
        assert proxy.goes(request), request
    assert not proxy.goes(requests.set_data("/a", _LARGE))
    proxy.use_up_share()
    assert not proxy.goes(requests.create("/a", b"x"))
    assert proxy.goes(requests.create("/a", b"x"), session=2)


def test_the_last_room_has_a_bounded_part_for_ephemeral_nodes() -> None:
    proxy = Proxy()
    current = _SNAPSHOT._replace(bytes=4)
    proxy.learn(100 * _MIB - 4 * _MIB - _MIB // 2, current=current)
    assert proxy.space.pressure is not None
    assert proxy.space.pressure.is_last
    assert proxy.goes(_EPHEMERAL)
    assert not proxy.goes(requests.multi([_EPHEMERAL, _GROWS]))
    proxy.learn(100 * _MIB - 4 * _MIB, current=current)
    assert proxy.goes(_EPHEMERAL)
    proxy.machine.tree.data_size += _MIB  # all of it is used: the rest is for snapshots and etcd's file
    assert not proxy.goes(_EPHEMERAL)
    assert proxy.goes(requests.delete("/a"))


def test_a_refused_request_behind_others_is_counted_once() -> None:
    proxy = Proxy()
    proxy.learn(91 * _MIB)
    for request in (_SYNC, _GROWS):
        proxy.outbox.submit(Pending(Kind.CLIENT, 1, request.opcode, (), request.body))
    assert proxy.outbox.cut(Header(1, 0, 0, 0)) is not None
    assert proxy.outbox.cut(Header(1, 0, 0, 0)) is None
    assert proxy.stats.growth_refused == 1


def test_the_size_in_use_decides_and_the_log_counts_between_two_looks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    proxy = Proxy()
    assert proxy.goes(_GROWS)  # nothing is known yet
    assert proxy.learn(60 * _MIB) == 10
    assert proxy.learn(80 * _MIB) == 1  # it may be short soon
    assert proxy.goes(_GROWS)
    assert not proxy.is_pressed()
    for _ in range(8):  # each takes a quarter more of etcd
        assert proxy.goes(_GROWS)
        proxy.stats.applied_bytes += _MIB
    proxy.stats.applied_bytes += 1
    assert not proxy.goes(_GROWS)
    assert proxy.is_pressed()
    assert proxy.learn(int(89.5 * _MIB)) == 1  # so that it does not come and go
    assert not proxy.goes(_GROWS)
    proxy.learn(88 * _MIB)
    assert proxy.goes(_GROWS)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_where_all_is_refused_an_entry_is_asked_for_now_and_then() -> None:
    """etcd counts freed pages only after its next write."""
    proxy = Proxy()

    def looks_until_wanted() -> int | None:
        for look in range(20):
            proxy.learn(91 * _MIB)
            if proxy.space.needs_entry():
                return look
        return None

    assert looks_until_wanted() is None  # nobody was refused
    assert not proxy.goes(_GROWS)
    assert looks_until_wanted() == 0
    assert looks_until_wanted() is None
    assert not proxy.goes(_GROWS)
    proxy.stats.applied_bytes += 1
    assert looks_until_wanted() == 5
    assert not proxy.goes(_GROWS)
    proxy.learn(50 * _MIB)
    assert not proxy.space.needs_entry()


@pytest.mark.parametrize(("percent", "quota"), [(0, _QUOTA), (10, 0)])
def test_without_a_reserve_or_a_known_quota_nothing_is_refused(percent: int, quota: int) -> None:
    proxy = Proxy(percent)
    proxy.learn(99 * _MIB, quota)
    assert proxy.goes(_GROWS)


def test_an_etcd_without_a_quota_needs_no_reserve() -> None:
    """Its metrics have -1 then. It may have had one before its restart."""
    proxy = Proxy()
    proxy.learn(99 * _MIB)
    assert not proxy.goes(_GROWS)
    assert proxy.learn(99 * _MIB, -1) == 10
    proxy.stats.applied_bytes += 9 * _MIB
    assert proxy.goes(_GROWS)
    assert not proxy.is_pressed()


def test_there_is_always_room_for_one_more_snapshot() -> None:
    proxy = Proxy(percent=5)
    current = _SNAPSHOT._replace(bytes=16 * _MIB)
    proxy.machine.tree.data_size = 40 * _MIB
    proxy.learn(67 * _MIB, current=current)
    assert proxy.goes(_GROWS)
    # What the log holds since then goes into the next one, also what was there when this proxy started.
    proxy.learn(67 * _MIB, current=current, log_bytes=6 * _MIB)
    proxy.stats.applied_bytes += 2 * _MIB
    proxy.learn(67 * _MIB, current=current, log_bytes=8 * _MIB)
    assert not proxy.goes(_GROWS)
    reserve = 34 * _MIB + _MIB // 2
    assert proxy.space.pressure == Pressure(reserve, 33 * _MIB, 31 * _MIB)
    proxy.learn(69 * _MIB, current=current, log_bytes=8 * _MIB)
    assert proxy.space.pressure == Pressure(reserve, 31 * _MIB, 31 * _MIB, is_last=True)
    proxy.machine.tree.data_size = 3 * _MIB  # but it is no larger than the tree
    proxy.learn(67 * _MIB, current=current, log_bytes=8 * _MIB)
    assert proxy.goes(_GROWS)


def test_a_tree_without_a_snapshot_needs_room_for_two() -> None:
    """The second one is the first that deletes a part of the log."""
    proxy = Proxy(percent=3)
    proxy.machine.tree.data_size = 16 * _MIB
    proxy.learn(59 * _MIB, log_bytes=16 * _MIB)
    assert not proxy.goes(_GROWS)
    proxy.learn(59 * _MIB, current=_SNAPSHOT._replace(bytes=16 * _MIB))
    assert proxy.goes(_GROWS)
