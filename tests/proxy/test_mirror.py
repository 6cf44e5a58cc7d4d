"""The mirror: loads in any order, gaps in the stream, lists of events, zxids, what is not ours."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import EventType
from codec.jute import Acl
from proxy.draft import SessionRecord
from proxy.etcd.model import Delete, Put, Txn
from proxy.mirror import Mirror
from proxy.watches import WatchTable
from schema.paths import parent_of
from schema.values import (
    OPEN_ACL,
    BadValue,
    SessionValue,
    TreeEvent,
    TreeRecord,
    encode_counter,
    encode_events,
    encode_loss,
    encode_node,
    encode_session,
    encode_tree,
)
from tests.fakes.etcd import FakeEvent
from tests.proxy import naive
from tests.proxy.naive import Create
from tests.proxy.ops.room import do, with_quota
from tests.proxy.requests import SESSIONS, batches
from tests.proxy.world import KEYS, Proxy, Store, assert_same_tree, naive_answer, naive_tree, request_of

_PLAIN = encode_node(b"data", OPEN_ACL, 0, 1, 1, 0, 0)


def _commit(
    proxy: Proxy, model: naive.NaiveZooKeeper, asked: list[tuple[int, naive.Asked]], now: int
) -> None:
    batch = proxy.batch(now)
    for session, single in asked:
        assert batch.add(request_of(session, single))
    zxid = proxy.mirror.zxid_of(proxy.commit(batch).revision)
    for session, single in asked:
        naive_answer(model, session, single, zxid, now)
    proxy.catch_up()


Script = list[list[tuple[int, naive.Asked]]]


@given(batches, st.randoms(use_true_random=False), st.integers(1, 5))
def test_a_load_shows_the_same_in_whatever_order_it_comes(
    script: Script, chance: random.Random, pages: int
) -> None:
    store = Store(SESSIONS)
    proxy = Proxy(store)
    model = naive_tree(SESSIONS)
    for number, asked in enumerate(script):
        _commit(proxy, model, asked, number)
    record, *pairs = sorted(store.snapshot(), key=lambda kv: kv.key != KEYS.tree)
    chance.shuffle(pairs)
    loaded = Proxy(store, load=False)
    loaded.mirror.load([record])
    for page in range(pages):
        loaded.mirror.load(pairs[page::pages])
    loaded.mirror.loaded(store.revision)
    assert_same_tree(loaded, model)
    assert loaded.watches.fired == []
    assert loaded.mirror.markers == proxy.mirror.markers


def _wanted(before: naive.NaiveZooKeeper, after: naive.NaiveZooKeeper) -> set[tuple[int, str]]:
    """What a client with all watches has to learn of the difference of two trees."""
    wanted: set[tuple[int, str]] = set()
    for path in before.nodes.keys() | after.nodes.keys():
        old, new = before.nodes.get(path), after.nodes.get(path)
        if old is None or new is None or old.czxid != new.czxid:
            wanted |= {(EventType.NODE_DELETED, path)} if old is not None else set()
            wanted |= {(EventType.NODE_CREATED, path)} if new is not None else set()
        else:
            wanted |= {(EventType.NODE_DATA_CHANGED, path)} if old.mzxid != new.mzxid else set()
    told = {parent_of(path) for kind, path in wanted if kind != EventType.NODE_DATA_CHANGED}
    for path, old in before.nodes.items():
        new = after.nodes.get(path)
        if new is not None and old.czxid == new.czxid and old.pzxid != new.pzxid and path not in told:
            wanted.add((EventType.NODE_CHILDREN_CHANGED, path))
    return wanted


@given(batches, batches)
def test_after_a_gap_the_mirror_shows_the_same_as_a_new_one_and_tells_what_changed(
    before: Script, missed: Script
) -> None:
    store = Store(SESSIONS)
    writer, reader = Proxy(store), Proxy(store)
    model = naive_tree(SESSIONS)
    for number, asked in enumerate(before):
        _commit(writer, model, asked, number)
    reader.catch_up()
    reader.watches.fired.clear()
    known = naive.NaiveZooKeeper({path: _copy(node) for path, node in model.nodes.items()})
    ended = set(reader.mirror.sessions)
    for number, asked in enumerate(missed):
        _commit(writer, model, asked, 100 + number)
    reader.sessions_changed.clear()
    reader.mirror.replace(store.snapshot(), store.revision)
    assert_same_tree(reader, model)
    assert set(reader.watches.fired) == _wanted(known, model)
    assert len(reader.watches.fired) == len(set(reader.watches.fired))
    assert set(reader.sessions_changed) == ended - model.sessions
    assert reader.mirror.revision == reader.applied_up_to == store.revision
    # What the stream still brings of the gap changes nothing.
    reader.watches.fired.clear()
    reader.catch_up()
    assert reader.watches.fired == []


def _copy(node: naive.Znode) -> naive.Znode:
    return naive.Znode(**vars(node))


class Listening:
    """Notes what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.watches = Watches(self)
        self.mirror = Mirror(KEYS, self.watches, self)

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None:
        self.told.append(("session", session_id if record is not None else -session_id))

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        self.told.append(("lost", (incarnation, list(paths))))

    def marked(self, marker: bytes, value: bytes) -> None:
        self.told.append(("marked", value))

    def applied(self, revision: int) -> None:
        self.told.append(("applied", revision))


class Watches(WatchTable):
    def __init__(self, listening: Listening) -> None:
        super().__init__()
        self.listening = listening

    def __bool__(self) -> bool:
        return True

    def fire(self, kind: int, path: str, zxid: int, acl: Sequence[Acl], parent_acl: Sequence[Acl]) -> None:
        self.listening.told.append(("fired", (kind, path, zxid)))


def _store_and_mirror() -> tuple[Store, Listening, list[FakeEvent]]:
    store = Store(SESSIONS)
    listening = Listening()
    listening.mirror.load(store.snapshot())
    listening.mirror.loaded(store.revision)
    return store, listening, []


def _feed(store: Store, listening: Listening, *txns: Sequence[Put | Delete]) -> None:
    """Commit, and bring all events in one message."""
    watcher = store.watch(KEYS.start, KEYS.end, store.revision + 1)
    for ops in txns:
        store.txn(Txn((), ops))
    events: list[FakeEvent] = []
    while not watcher.queue.empty():
        message = watcher.queue.get_nowait()
        assert not isinstance(message, Exception)
        events += message.events  # type: ignore[arg-type]
    listening.mirror.apply(events)


def test_a_revision_is_applied_whole_before_anybody_is_told() -> None:
    store, listening, _ = _store_and_mirror()
    first = store.revision + 1
    _feed(
        store,
        listening,
        [
            Put(KEYS.node("/a"), _PLAIN),
            Put(KEYS.counter("/"), encode_counter(1)),
            Put(KEYS.session(1), encode_session(SessionValue("h", 1, "x"))),
            Put(KEYS.marker("cafe", 1), b"txn 1"),
        ],
        [Delete(KEYS.node("/a")), Delete(KEYS.session(1))],
    )
    assert listening.told == [
        ("marked", b"txn 1"),
        ("fired", (EventType.NODE_CREATED, "/a", first)),
        ("session", 1),
        ("applied", first),
        ("fired", (EventType.NODE_DELETED, "/a", first + 1)),
        ("session", -1),
        ("applied", first + 1),
    ]


def test_a_list_of_events_is_fired_as_it_stands_and_its_paths_no_second_time() -> None:
    store, listening, _ = _store_and_mirror()
    listed = [
        TreeEvent(EventType.NODE_CREATED, "/a", OPEN_ACL),
        TreeEvent(EventType.NODE_DELETED, "/a", OPEN_ACL),
        TreeEvent(EventType.NODE_CREATED, "/b", OPEN_ACL),
    ]
    _feed(
        store,
        listening,
        [
            Put(KEYS.event_list(0), encode_events(listed)),
            Put(KEYS.node("/b"), _PLAIN),
            Put(KEYS.node("/c"), _PLAIN),
        ],
    )
    fired = [what[:2] for kind, what in listening.told if kind == "fired" and isinstance(what, tuple)]
    assert fired == [*((event.type, event.path) for event in listed), (EventType.NODE_CREATED, "/c")]


def test_a_list_of_events_speaks_for_its_own_revision_alone() -> None:
    store, listening, _ = _store_and_mirror()
    listed = [TreeEvent(EventType.NODE_CREATED, "/a", OPEN_ACL)]
    _feed(
        store,
        listening,
        [Put(KEYS.event_list(0), encode_events(listed)), Put(KEYS.node("/a"), _PLAIN)],
        [Put(KEYS.node("/a"), _PLAIN)],
    )
    fired = [what[0] for kind, what in listening.told if kind == "fired" and isinstance(what, tuple)]
    assert fired == [EventType.NODE_CREATED, EventType.NODE_DATA_CHANGED]


def test_a_new_acl_fires_nothing() -> None:
    store, listening, _ = _store_and_mirror()
    _feed(store, listening, [Put(KEYS.node("/a"), _PLAIN)])
    mzxid = listening.mirror.tree.nodes["/a"].mzxid
    listening.told.clear()
    acl = (Acl(1, "world", "anyone"),)
    _feed(store, listening, [Put(KEYS.node("/a"), encode_node(b"data", acl, 0, 1, 1, 0, 1, None, mzxid))])
    assert [kind for kind, _ in listening.told] == ["applied"]
    node = listening.mirror.tree.nodes["/a"]
    assert (node.acl, node.aversion, node.mzxid) == (acl, 1, mzxid)
    assert node.mod > mzxid


def test_a_load_fires_nothing_and_takes_no_list_of_events() -> None:
    store, _, _ = _store_and_mirror()
    store.txn(Txn((), (Put(KEYS.event_list(0), b"unreadable"),)))
    listening = Listening()
    listening.mirror.load(store.snapshot())
    listening.mirror.loaded(store.revision)
    assert listening.told == []


def test_what_came_before_the_load_is_not_applied_again() -> None:
    store = Store(SESSIONS)
    watcher = store.watch(KEYS.start, KEYS.end, 1)
    listening = Listening()
    listening.mirror.load(store.snapshot())
    listening.mirror.loaded(store.revision)
    while not watcher.queue.empty():
        message = watcher.queue.get_nowait()
        assert not isinstance(message, Exception)
        listening.mirror.apply(message.events)
    assert listening.told == []


@pytest.mark.parametrize(
    ("revision", "zxid"), [(1, 1), (9, 9), (10, 110), (19, 119), (20, 1020), (21, 1021), (5000, 6000)]
)
def test_zxids_are_revisions_and_an_offset(revision: int, zxid: int) -> None:
    store, listening, _ = _store_and_mirror()
    record = TreeRecord(True, ((0, 0), (10, 100), (20, 1000)), 1)
    _feed(store, listening, [Put(KEYS.tree, encode_tree(record))])
    assert listening.mirror.zxid_of(revision) == zxid


def test_a_record_that_comes_in_a_gap_holds_for_the_nodes_that_came_with_it() -> None:
    store, listening, _ = _store_and_mirror()
    first = store.revision + 1
    store.txn(Txn((), (Put(KEYS.tree, encode_tree(TreeRecord(True, ((0, 0), (first, 1 << 32)), 1))),)))
    store.txn(Txn((), (Put(KEYS.node("/a"), _PLAIN), Put(KEYS.counter("/a"), encode_counter(0)))))
    listening.mirror.replace(store.snapshot(), store.revision)
    node = listening.mirror.tree.nodes["/a"]
    assert node.czxid == node.mzxid == node.pzxid == store.revision + (1 << 32) == listening.mirror.zxid


def test_a_revision_of_a_restored_etcd_is_another_one() -> None:
    before, after = Store([1]), Store([1])
    for store, data, created in ((before, b"old", 1), (after, b"new", 2)):
        value = encode_node(data, OPEN_ACL, 0, 1, 1, 0, 0)
        counter = Put(KEYS.counter("/"), encode_counter(created))
        store.txn(Txn((), (Put(KEYS.node("/changed"), value), Put(KEYS.node("/same"), _PLAIN), counter)))
    assert before.revision == after.revision
    proxy = Proxy(before)
    restored = TreeRecord(True, ((0, 0), (after.revision, 1 << 32)), 2)
    tree = KEYS.tree
    proxy.mirror.replace(
        [kv._replace(value=encode_tree(restored)) if kv.key == tree else kv for kv in after.snapshot()],
        after.revision,
    )
    nodes = proxy.mirror.tree.nodes
    assert nodes["/changed"].data == b"new"
    assert nodes["/changed"].mzxid == after.revision + (1 << 32)
    assert (nodes["/"].created, nodes["/"].pzxid) == (2, after.revision + (1 << 32))
    assert proxy.mirror.zxid == after.revision + (1 << 32)


def test_a_session_that_came_and_went_within_a_gap_is_told_of() -> None:
    store = Store([1])
    proxy = Proxy(store)
    ephemeral = encode_node(b"", OPEN_ACL, 77, 1, 1, 0, 0)
    store.txn(
        Txn((), (Put(KEYS.node("/ephemeral"), ephemeral), Put(KEYS.counter("/"), encode_counter(1)))),
    )
    proxy.mirror.replace(store.snapshot(), store.revision)
    assert proxy.sessions_changed == [77]


def test_an_imported_node_keeps_the_zxids_that_its_header_names() -> None:
    store, listening, _ = _store_and_mirror()
    value = encode_node(b"", OPEN_ACL, 0, 1, 2, 3, 4, 100, 200)
    _feed(store, listening, [Put(KEYS.node("/a"), value), Put(KEYS.counter("/a"), encode_counter(7, 300))])
    node = listening.mirror.tree.nodes["/a"]
    assert (node.czxid, node.mzxid, node.pzxid, node.created) == (100, 200, 300, 7)
    assert [what for kind, what in listening.told if kind == "fired"] == [
        (EventType.NODE_CREATED, "/a", store.revision)
    ]


def test_a_quotas_numbers_are_the_same_however_a_mirror_came_to_them() -> None:
    proxy = with_quota("/open", b"count=1")
    stats = "/zookeeper/quota/open/zookeeper_stats"
    behind = Proxy(proxy.store)
    do(proxy, naive.Create("/open/x", b"12345"), naive.SetData("/open", b"678"), naive.Create("/open/y"))
    do(proxy, naive.Delete("/open/y"), naive.SetData(stats, b"count=9,bytes=9"))
    expected = b"count=3,bytes=8"
    pairs = proxy.store.snapshot()
    random.Random(5).shuffle(pairs)
    loaded = Proxy(proxy.store, load=False)
    loaded.mirror.load(pairs)
    loaded.mirror.loaded(proxy.store.revision)
    behind.mirror.replace(pairs, proxy.store.revision)
    for one in (proxy, loaded, behind):
        node = one.mirror.tree.nodes[stats]
        assert (node.data, node.version) == (expected, 1)
        nodes = one.mirror.tree.nodes
        assert one.mirror.tree.data_size == sum(
            len(path) + len(node.data or b"") for path, node in nodes.items()
        )
    loaded.mirror.unload()
    assert not loaded.mirror.tree.quotas
    assert loaded.mirror.tree.data_size == 0


def test_keys_of_nobody_are_passed_over() -> None:
    store, listening, _ = _store_and_mirror()
    foreign = [Put(KEYS.start + name, b"?") for name in (b"strange", b"nodes", b"childrens", b"")]
    _feed(store, listening, foreign)
    assert [kind for kind, _ in listening.told] == ["applied"]
    listening.mirror.replace(store.snapshot(), store.revision + 1)
    loaded = Listening()
    loaded.mirror.load(store.snapshot())
    assert set(loaded.mirror.tree.nodes) == {"/"}


def test_a_node_of_another_version_is_refused() -> None:
    store, listening, _ = _store_and_mirror()
    with pytest.raises(BadValue, match="version 9"):
        _feed(store, listening, [Put(KEYS.node("/a"), b"\x09" + _PLAIN[1:])])


def test_a_loss_is_told_and_changes_nothing() -> None:
    store, listening, _ = _store_and_mirror()
    listening.told.clear()
    _feed(store, listening, [Put(KEYS.loss(1), encode_loss("cafe", ["/a"]))])
    assert ("lost", ("cafe", ["/a"])) in listening.told


@given(batches)
def test_what_is_unchanged_since_a_zxid_would_have_been_read_the_same_then(script: Script) -> None:
    proxy = Proxy(Store(SESSIONS))
    model = naive_tree(SESSIONS)
    paths = ("/", "/a", "/b", "/a/x", "/a/x/p", "/missing/child", "odd", "")
    seen: list[tuple[int, list[object]]] = []

    def now() -> list[object]:
        nodes = proxy.mirror.tree.nodes
        return [
            (node.stat(), node.data, node.acl, node.children) if (node := nodes.get(path)) else None
            for path in paths
        ]

    for number, asked in enumerate([[], *script]):
        if asked:
            _commit(proxy, model, asked, 1000 + number)
        seen.append((proxy.mirror.zxid, now()))
    for zxid, then in seen:
        for path, before, after in zip(paths, then, now(), strict=True):
            if proxy.mirror.unchanged_since(path, zxid):
                assert before == after
    assert all(proxy.mirror.unchanged_since(path, proxy.mirror.zxid) for path in paths)


def test_what_is_not_there_is_unchanged_while_nothing_comes_or_goes_beside_it() -> None:
    proxy = Proxy(Store(SESSIONS))
    model = naive_tree(SESSIONS)
    _commit(proxy, model, [(1, Create("/a"))], 1000)
    before = proxy.mirror.zxid
    _commit(proxy, model, [(1, Create("/a/x"))], 1001)
    assert proxy.mirror.unchanged_since("/b/c", before)
    assert not proxy.mirror.unchanged_since("/a/y", before)
    assert not proxy.mirror.unchanged_since("/a", before)


def test_proxies_and_markers_come_and_go() -> None:
    store, listening, _ = _store_and_mirror()
    _feed(store, listening, [Put(KEYS.proxy("cafe"), b""), Put(KEYS.marker("cafe", 2), b"open 1")])
    assert listening.mirror.proxies == {"cafe"}
    assert listening.mirror.markers == {"cafe/1", "cafe/2"}
    _feed(store, listening, [Delete(KEYS.proxy("cafe")), Delete(KEYS.marker("cafe", 2))])
    assert listening.mirror.proxies == set()
    assert listening.mirror.markers == {"cafe/1"}
