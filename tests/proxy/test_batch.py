"""Batches: which requests share a component, what fits into one Txn, and what a refused addition leaves."""

from collections.abc import Sequence
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import ErrorCode
from codec.jute import Acl
from proxy import batch as batch_module
from proxy.acl import Caller
from proxy.batch import MAX_BYTES, MAX_REQUESTS, Batch, Later, Request
from proxy.draft import Held
from proxy.etcd.model import TxnResult, chain_cost
from proxy.ops import WRITES
from proxy.watches import HeldWatches
from schema.values import SessionValue, encode_session
from tests.proxy import naive
from tests.proxy.naive import Create, Delete, Multi, SetData
from tests.proxy.requests import SESSIONS, requests
from tests.proxy.world import KEYS, Proxy, Store, assert_same_tree, naive_answer, naive_tree, request_of


def _proxy(*created: str, sessions: Sequence[int] = SESSIONS) -> Proxy:
    """A proxy on a tree with these nodes."""
    store = Store(sessions)
    proxy = Proxy(store)
    for start in range(0, len(created), 500):
        batch = proxy.batch(1)
        for path in created[start : start + 500]:
            assert batch.add(request_of(sessions[0], Create(path)))
        proxy.commit(batch)
        proxy.catch_up()
    return proxy


def _components(batch: Batch) -> list[list[str]]:
    return [[request.fields[0] for request in component.requests] for component in batch.components]


def _add(batch: Batch, session: int, asked: naive.Asked, *, solo: bool = False) -> Request:
    request = request_of(session, asked, solo=solo)
    assert batch.add(request)
    return request


def test_requests_of_other_sessions_on_other_nodes_are_apart() -> None:
    batch = _proxy("/a", "/b").batch(1)
    _add(batch, 1, SetData("/a"))
    _add(batch, 2, SetData("/b"))
    assert _components(batch) == [["/a"], ["/b"]]


def test_requests_of_one_session_are_together() -> None:
    batch = _proxy("/a", "/b").batch(1)
    _add(batch, 1, SetData("/a"))
    _add(batch, 2, SetData("/b"))
    _add(batch, 1, SetData("/b"))
    (together,) = batch.components
    assert [request.fields[0] for request in together.requests if request.caller.session_id == 1] == [
        "/a",
        "/b",
    ]


def test_creates_under_one_parent_are_together() -> None:
    batch = _proxy("/a").batch(1)
    _add(batch, 1, Create("/a/x"))
    _add(batch, 2, Create("/a/y"))
    _add(batch, 3, SetData("/"))
    assert _components(batch) == [["/a/x", "/a/y"], ["/"]]


def test_a_refusal_belongs_to_the_component_it_rests_on() -> None:
    batch = _proxy("/a").batch(1)
    _add(batch, 1, Create("/a/x"))
    refused = _add(batch, 2, Create("/a/x"))
    assert refused.refusal is ErrorCode.NODE_EXISTS
    assert _components(batch) == [["/a/x", "/a/x"]]


def test_components_that_become_one_keep_all_their_events() -> None:
    proxy = _proxy("/a", "/b")
    batch = proxy.batch(1)
    _add(batch, 1, SetData("/a"))
    _add(batch, 2, SetData("/b"))
    _add(batch, 3, Multi((SetData("/b"), SetData("/a"))))
    proxy.commit(batch)
    proxy.watches.fired.clear()
    proxy.catch_up()
    fired = [path for _, path in proxy.watches.fired]
    assert sorted(fired[:2]) == ["/a", "/b"]  # of two sessions: either may be the first
    assert fired[2:] == ["/b", "/a"]


def test_a_session_that_is_gone_or_moved_is_told_so() -> None:
    proxy = _proxy()
    batch = proxy.batch(1)
    assert _add(batch, 99, SetData("/")).refusal is ErrorCode.SESSION_EXPIRED
    record = proxy.mirror.sessions[1]
    moved = {1: record._replace(value=record.value._replace(owner="another"))}
    batch = Batch(proxy.mirror.tree, moved, {}, "cafe", proxy.mirror.revision, 1)
    assert _add(batch, 1, SetData("/")).refusal is ErrorCode.SESSION_MOVED


def test_what_follows_the_end_of_a_session_finds_none() -> None:
    batch = _proxy().batch(1)
    _add(batch, 1, naive.CloseSession())
    assert _add(batch, 1, Create("/late", flags=1)).refusal is ErrorCode.SESSION_EXPIRED
    assert _add(batch, 2, Create("/in-time")).refusal is None


def test_a_path_that_a_txn_in_flight_changes_is_held() -> None:
    proxy = _proxy("/a", "/b")
    holder = object()
    mirror = proxy.mirror
    batch = Batch(mirror.tree, mirror.sessions, {"/a": holder}, "cafe", mirror.revision, 1)
    with pytest.raises(Held) as held:
        batch.add(request_of(1, Multi((Create("/b/x"), SetData("/a")))))
    assert held.value.holder is holder
    assert batch.requests == []
    assert _add(batch, 1, Create("/b/x")).refusal is None
    assert batch.changed_paths() == ["/b", "/b/x"]


@pytest.mark.parametrize(
    ("watches", "later"),
    [
        (HeldWatches(("/b",), (), (), ()), False),
        (HeldWatches(("/a",), (), (), ()), True),
        (HeldWatches((), (), ("/a",), ()), True),
        (HeldWatches((), (), (), ("/",)), True),
    ],
)
def test_what_fires_a_watch_of_its_own_session_waits_for_what_went_before(
    watches: HeldWatches, later: bool
) -> None:
    proxy = _proxy("/a", "/b")
    mirror = proxy.mirror
    held = {1: watches}
    batch = Batch(mirror.tree, mirror.sessions, {}, "cafe", mirror.revision, 1, held.get)
    _add(batch, 2, SetData("/a"))  # another session's
    assert batch.add(request_of(1, SetData("/b")))
    request = request_of(1, SetData("/a"))
    if later:
        with pytest.raises(Later):
            batch.add(request)
        assert len(batch.requests) == 2
        batch = Batch(mirror.tree, mirror.sessions, {}, "cafe", mirror.revision, 1, held.get)
    assert batch.add(request)


def _reading(session: int, asked: naive.Asked, *paths: bytes) -> Request:
    """A request before which its session reads these paths."""
    request = request_of(session, asked)
    request.reads = paths
    return request


def test_what_a_session_reads_between_two_requests_of_a_batch_stays_as_it_is_there() -> None:
    proxy = _proxy("/a", "/a/x", "/b", "/c")
    batch = proxy.batch(1)
    _add(batch, 2, SetData("/c"))  # before it
    _add(batch, 1, SetData("/b"))
    assert batch.add(_reading(1, SetData("/b"), b"/a", b"/c"))
    _, *planned = proxy.plan(batch).success
    for asked in (SetData("/c"), SetData("/a"), Delete("/a/x"), Create("/a/y"), Multi((SetData("/c"),))):
        with pytest.raises(Later):
            batch.add(request_of(3, asked))
    assert [*proxy.plan(batch).success[1:]] == planned
    for asked in (SetData("/a/x"), SetData("/a", version=7), Delete("/a"), Create("/d")):
        assert batch.add(request_of(3, asked))
    assert len(batch.requests) == 7


def test_what_a_session_reads_before_its_first_request_of_a_batch_may_change() -> None:
    batch = _proxy("/a", "/b").batch(1)
    assert batch.add(_reading(1, SetData("/b"), b"/a"))
    assert batch.add(request_of(2, SetData("/a")))


def test_a_request_on_its_own_shares_no_batch() -> None:
    batch = _proxy().batch(1)
    _add(batch, 1, SetData("/"), solo=True)
    assert not batch.add(request_of(2, SetData("/")))
    batch = _proxy().batch(1)
    _add(batch, 1, SetData("/"))
    assert not batch.add(request_of(2, SetData("/"), solo=True))


def test_a_batch_is_full_at_its_number_of_requests() -> None:
    batch = _proxy().batch(1)
    for _ in range(MAX_REQUESTS):
        _add(batch, 1, SetData("/"))
    assert not batch.add(request_of(1, SetData("/")))


def _sized(path: str, size: int) -> Request:
    return Request(WRITES[5], (path, b"", -1), Caller(1, ()), size, lambda _request, _zxid: None)


def test_a_batch_is_full_at_its_number_of_bytes() -> None:
    batch = _proxy().batch(1)
    assert batch.add(_sized("/", MAX_BYTES // 2))
    assert not batch.add(_sized("/", MAX_BYTES // 2))
    assert batch.add(_sized("/", MAX_BYTES // 4))


def test_what_is_too_large_for_the_batch_is_not_evaluated_for_it() -> None:
    batch = _proxy("/a").batch(1)
    assert batch.add(_sized("/", MAX_BYTES // 2))
    assert not batch.add(_sized("/a", MAX_BYTES * 2 // 3))
    assert "/a" not in batch.draft.entries


def test_a_new_acl_counts_with_the_data_that_are_put_with_it() -> None:
    proxy = _proxy("/a", "/b")
    for path in ("/a", "/b"):
        node = proxy.mirror.tree.nodes[path]
        node.data = bytes(MAX_BYTES * 2 // 3)
    batch = proxy.batch(1)
    acl = [Acl(31, "world", "anyone"), Acl(1, "ip", "10.0.0.1")]
    assert batch.add(_set_acl("/a", acl))
    assert not batch.add(_set_acl("/b", acl))
    assert not batch.draft.entries["/b"].node_changed


def _set_acl(path: str, acl: list[Acl]) -> Request:
    return Request(WRITES[7], (path, acl, -1), Caller(1, ()), 80, lambda _request, _zxid: None)


def test_a_single_request_is_tried_whatever_its_size() -> None:
    assert _proxy().batch(1).add(_sized("/", 10 * MAX_BYTES))


def test_a_request_with_more_guards_than_a_txn_has_room_for_is_wide_and_alone() -> None:
    names = [f"/n{number}" for number in range(150)]
    proxy = _proxy("/other", *names)
    many = Multi(tuple(SetData(name, b"new", 0) for name in names))
    batch = proxy.batch(1)
    _add(batch, 1, SetData("/other"))
    assert not batch.add(request_of(2, many))
    assert not batch.wide
    batch = proxy.batch(1)
    request = _add(batch, 2, many)
    assert batch.wide
    assert not batch.add(request_of(1, SetData("/other")))
    result = proxy.commit(batch)
    proxy.catch_up()
    assert isinstance(result.responses[1], TxnResult)
    assert result.responses[1].succeeded
    assert isinstance(request.result, list)
    assert {proxy.mirror.tree.nodes[name].data for name in names} == {b"new"}


def test_many_creates_under_one_node_need_few_guards() -> None:
    proxy = _proxy("/a")
    batch = proxy.batch(1)
    _add(batch, 1, Multi(tuple(Create(f"/a/{number}") for number in range(1000))))
    _add(batch, 2, SetData("/"))
    assert not batch.wide
    assert chain_cost(proxy.plan(batch)) <= 128
    proxy.commit(batch)
    proxy.catch_up()
    assert len(proxy.mirror.tree.nodes["/a"].children or ()) == 1000
    assert proxy.mirror.tree.nodes["/a"].created == 1000


def test_components_that_have_grown_alike_become_one_only_where_there_is_room() -> None:
    nodes = {session: [f"/n{session}-{number}" for number in range(63)] for session in (1, 2)}
    proxy = _proxy("/shared", *nodes[1], *nodes[2])
    batch = proxy.batch(1)
    for session, paths in nodes.items():
        for path in paths:
            batch.add(request_of(session, SetData(path, version=9)))  # refused: guards, but no writes
        batch.add(request_of(session, SetData("/shared")))
    assert len(batch.requests) == 127
    assert chain_cost(proxy.plan(batch)) <= 128


@settings(max_examples=10)
@given(
    st.lists(st.tuples(st.integers(1, 120), st.integers(1, 40), st.booleans()), min_size=1, max_size=4),
    st.data(),
)
def test_whatever_a_batch_accepts_stock_etcd_takes(
    shape: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    """(sessions, requests of each, creates or versioned sets), all on nodes of their own or under one."""
    sessions = list(range(1, 1 + max(count for count, _, _ in shape)))
    tops = [f"/top{session}" for session in sessions]
    proxy = _proxy(*tops, sessions=sessions)
    for count, each, creates in shape:
        batch = proxy.batch(1)
        shared = data.draw(st.booleans())
        wanted = [
            (
                session,
                Create(f"/top{1 if shared else session}/s", flags=2)
                if creates
                else SetData(f"/top{session}"),
            )
            for session in sessions[:count]
            for _ in range(each)
        ]
        taken = 0
        for session, asked in wanted:
            if not batch.add(request_of(session, asked)):
                break
            taken += 1
        assert taken
        result = proxy.commit(batch)  # asserts chain_cost as well
        assert all(isinstance(nested, TxnResult) and nested.succeeded for nested in result.responses[1:])
        proxy.catch_up()


@given(st.lists(st.tuples(st.sampled_from(SESSIONS), requests), min_size=1, max_size=12), st.integers(6, 16))
def test_an_addition_refused_for_want_of_room_leaves_no_trace(
    asked: list[tuple[int, naive.Asked]], width: int
) -> None:
    store = Store(SESSIONS)
    proxy = Proxy(store)
    model = naive_tree(SESSIONS)
    with mock.patch.object(batch_module, "WIDTH", width):
        waiting = list(asked)
        while waiting:
            batch = proxy.batch(7)
            taken: list[tuple[int, naive.Asked]] = []
            for session, single in waiting:
                if not batch.add(request_of(session, single)):
                    break
                taken.append((session, single))
            assert taken
            zxid = proxy.mirror.zxid_of(proxy.commit(batch).revision)
            for session, single in taken:
                naive_answer(model, session, single, zxid, 7)
            proxy.catch_up()
            assert_same_tree(proxy, model)
            waiting = waiting[len(taken) :]


def test_the_components_never_share_a_key() -> None:
    proxy = _proxy("/a", "/b", "/c")
    batch = proxy.batch(1)
    for session, path in ((1, "/a"), (2, "/b"), (3, "/c")):
        _add(batch, session, Create(path + "/x"))
        _add(batch, session, Delete(path + "/x"))
    txn = proxy.plan(batch)
    keys = [
        {compare.key for compare in nested.compares} | {op.key for op in nested.success}  # type: ignore[union-attr]
        for nested in txn.success[1:]
    ]
    assert len(keys) == 3
    assert not (keys[0] & keys[1] | keys[1] & keys[2] | keys[0] & keys[2])


def test_a_session_record_is_written_once_under_its_lease() -> None:
    proxy = _proxy()
    batch = proxy.batch(1)
    draft = batch.draft
    draft.begin()
    draft.session(1)
    first, second = SessionValue("h", 1, "cafe"), SessionValue("h", 2, "cafe")
    draft.change_session(1, first)
    draft.change_session(1, second)
    assert draft.session_changes[-1].value == second
    draft.begin()
    record = draft.session(1)
    assert record is not None
    assert record.value == second
    assert KEYS.session(1).endswith(b"1")
    assert encode_session(second)
