"""From requests to etcd and back: draft, batch, plan, the fake etcd, events and mirror in one round.

What clients may see must be what ZooKeeper, one request at a time, would have shown them.
"""

from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from proxy import plan
from proxy.batch import Request
from proxy.etcd.model import Compare, Put, Txn, TxnResult
from proxy.tree import Node
from schema.paths import parent_of
from schema.values import SessionValue, encode_session
from tests.proxy import naive
from tests.proxy.naive import Create, Delete, Multi, SetData
from tests.proxy.requests import SESSIONS, batches, requests
from tests.proxy.world import (
    INCARNATION,
    KEYS,
    MARKER,
    Proxy,
    Store,
    answer_of,
    assert_same_tree,
    naive_answer,
    naive_tree,
    request_of,
)


def _interest(events: list[tuple[int, str]], path: str) -> list[tuple[int, str]]:
    """The events that may notify a watch on `path`."""
    return [event for event in events if event[1] == path or parent_of(event[1]) == path]


def _run(
    proxies: list[Proxy], model: naive.NaiveZooKeeper, asked: list[tuple[int, naive.Asked]], now: int
) -> None:
    """Commit one batch, compare everything that shows."""
    proxy = proxies[0]
    batch = proxy.batch(now)
    requests = [request_of(session, single) for session, single in asked]
    for request in requests:
        assert batch.add(request)
    result = proxy.commit(batch)
    zxid = proxy.mirror.zxid_of(result.revision)
    model.events.clear()
    expected = [naive_answer(model, session, single, zxid, now) for session, single in asked]
    assert [answer_of(request, zxid) for request in requests] == expected
    assert all(nested.succeeded for nested in result.responses[1:])  # type: ignore[union-attr]
    for each in proxies:
        each.watches.fired.clear()
        each.catch_up()
        assert_same_tree(each, model)
        fired = each.watches.fired
        assert sorted(fired) == sorted(model.events)
        for path in {event[1] for event in fired} | {parent_of(event[1]) for event in fired}:
            assert _interest(fired, path) == _interest(model.events, path)


_TWO = [(1, Create("/a")), (1, Create("/a/x"))]
_AGAIN = Multi((Delete("/a/x"), Delete("/a"), Create("/a"), Create("/a/x")))


@given(batches)
@example([_TWO, [(2, _AGAIN)], [(1, Delete("/a/x"))]])  # the child's event comes before its parent's
@example([_TWO, [(1, Delete("/a/x"))], [(2, Multi((Delete("/a"), Create("/a"))))], [(3, SetData("/a"))]])
def test_what_comes_back_is_what_a_plain_zookeeper_shows(script: list[list[tuple[int, naive.Asked]]]) -> None:
    store = Store(SESSIONS)
    proxies = [Proxy(store), Proxy(store)]
    model = naive_tree(SESSIONS)
    for number, asked in enumerate(script):
        _run(proxies, model, asked, 1000 + number)
    loaded = Proxy(store)
    assert_same_tree(loaded, model)
    # What a proxy has put itself it does not read again, unlike the others.
    for path, node in loaded.mirror.tree.nodes.items():
        for proxy in proxies:
            assert _fields(proxy.mirror.tree.nodes[path]) == _fields(node), path


def _fields(node: Node) -> list[object]:
    """All that a mirror knows of a node, but for what it keeps packed."""
    return [getattr(node, name) for name in Node.__slots__ if not name.startswith("_")]


_FEW = st.lists(st.tuples(st.sampled_from(SESSIONS), requests), min_size=1, max_size=4)
# A session writes through one proxy at a time, so what others do meanwhile is of other sessions.
_OTHERS = tuple(session + 10 for session in SESSIONS)
_FOREIGN = st.lists(
    st.lists(st.tuples(st.sampled_from(_OTHERS), requests), min_size=1, max_size=4), max_size=2
)
_MOVED = st.sets(st.sampled_from(SESSIONS), max_size=1)

Asked = list[tuple[int, naive.Asked]]


def _race(before: Asked, asked: Asked, foreign: list[Asked], moved: set[int], *, wide: bool) -> list[bool]:
    """Plan a batch, let others change the tree, commit: what is applied must be true of the changed tree."""
    store = Store((*SESSIONS, *_OTHERS))
    proxy, other = Proxy(store), Proxy(store)
    model = naive_tree((*SESSIONS, *_OTHERS))
    _run([other, proxy], model, before, 1000)
    batch = proxy.batch(2000)
    told: dict[Request, tuple[int, naive.Asked]] = {}
    for session, single in asked:
        request = request_of(session, single)
        assert batch.add(request)
        told[request] = session, single
    batch.wide = wide
    txn = proxy.plan(batch)
    for changes in foreign:
        _run([other], model, changes, 1500)
    for session in moved & model.sessions:
        value = encode_session(SessionValue("hash", 4000, "another"))
        store.txn(Txn((), (Put(KEYS.session(session), value, session),)))
    # Its lane is its own: the others' Txns do not fence it off.
    result = store.txn(Txn((Compare(MARKER, store.range_now(MARKER)),), txn.success, txn.failure))
    won = [nested.succeeded for nested in result.responses[1:] if isinstance(nested, TxnResult)]
    zxid = proxy.mirror.zxid_of(result.revision)
    for component, applied in zip(batch.components, won, strict=True):
        if applied:
            assert not moved & model.sessions & component.session_guards.keys()
            for request in component.requests:
                session, single = told[request]
                expected = naive_answer(model, session, single, zxid, 2000)
                assert answer_of(request, zxid) == expected, single
    for each in (proxy, other):
        each.catch_up()
        assert_same_tree(each, model)
    return won


@given(_FEW, _FEW, _FOREIGN, _MOVED)
# A change that a refusal or an answer rests on, of each kind: nodes that change, come, and go.
@example(_TWO, [(1, SetData("/a", b"mine", 0))], [[(11, SetData("/a", b"theirs"))]], set())
@example(_TWO, [(1, SetData("/b"))], [[(11, Create("/b"))]], set())
@example(_TWO, [(1, SetData("/a/x"))], [[(11, Delete("/a/x"))]], set())
@example(_TWO, [(1, SetData("/a/x"))], [[(11, Delete("/a/x")), (11, Delete("/a"))]], set())
@example(_TWO, [(1, Create("/a/x"))], [[(11, Delete("/a/x"))]], set())
@example(_TWO, [(1, Delete("/a"))], [[(11, Delete("/a/x"))]], set())
@example(_TWO, [(1, Delete("/a/x"))], [[(11, Create("/a/x/p"))]], set())
@example(_TWO, [(1, Create("/b"))], [], {1})
def test_what_is_applied_is_true_whatever_others_did_meanwhile(
    before: Asked, asked: Asked, foreign: list[Asked], moved: set[int]
) -> None:
    won = _race(before, asked, foreign, moved, wide=False)
    if not foreign and not moved:
        assert all(won)


@given(_FEW, _FEW, _FOREIGN, _MOVED)
# A change that a refusal or an answer rests on, of each kind: nodes that change, come, and go.
@example(_TWO, [(1, SetData("/a", b"mine", 0))], [[(11, SetData("/a", b"theirs"))]], set())
@example(_TWO, [(1, SetData("/b"))], [[(11, Create("/b"))]], set())
@example(_TWO, [(1, SetData("/a/x"))], [[(11, Delete("/a/x"))]], set())
@example(_TWO, [(1, SetData("/a/x"))], [[(11, Delete("/a/x")), (11, Delete("/a"))]], set())
@example(_TWO, [(1, Create("/a/x"))], [[(11, Delete("/a/x"))]], set())
@example(_TWO, [(1, Delete("/a"))], [[(11, Delete("/a/x"))]], set())
@example(_TWO, [(1, Delete("/a/x"))], [[(11, Create("/a/x/p"))]], set())
@example(_TWO, [(1, Create("/b"))], [], {1})
def test_ranges_of_guards_say_as_much_as_single_ones(
    before: Asked, asked: Asked, foreign: list[Asked], moved: set[int]
) -> None:
    with mock.patch.object(plan, "WIDTH", 1), mock.patch.object(plan, "DEFAULT_MAX_TXN_OPS", 14):
        won = _race(before, asked, foreign, moved, wide=True)
    if not foreign and not moved:
        assert all(won)


def test_a_component_that_only_answers_says_if_it_has_lost_though_nobody_else_is_there() -> None:
    store = Store(SESSIONS)
    proxy, other = Proxy(store), Proxy(store)
    model = naive_tree(SESSIONS)
    _run([other, proxy], model, [(1, Create("/a")), (2, Create("/b"))], 1000)
    batch = proxy.batch(2000)
    assert batch.add(request_of(1, SetData("/a", version=7)))
    assert batch.add(request_of(2, SetData("/b", version=7)))
    assert batch.add(request_of(3, SetData("/")))
    marker = store.range_now(MARKER)
    txn, _ = plan.build(batch, KEYS, MARKER, marker, b"txn", loser=INCARNATION)
    _run([other], model, [(3, SetData("/b")), (4, SetData("/"))], 1500)
    store.txn(Txn((Compare(MARKER, store.range_now(MARKER)),), txn.success, txn.failure))
    assert [store.range_now(KEYS.loss(index)) > 0 for index in range(3)] == [False, True, False]


def test_a_component_that_loses_its_race_says_so() -> None:
    store = Store(SESSIONS)
    proxy, other = Proxy(store), Proxy(store)
    model = naive_tree(SESSIONS)
    _run([other, proxy], model, [(1, Create("/a")), (2, Create("/b"))], 1000)
    batch = proxy.batch(2000)
    assert batch.add(request_of(1, SetData("/a")))
    assert batch.add(request_of(2, SetData("/b")))
    txn = proxy.plan(batch)
    _run([other], model, [(3, SetData("/b"))], 1500)
    store.txn(Txn((Compare(MARKER, store.range_now(MARKER)),), txn.success, txn.failure))
    assert [store.range_now(KEYS.loss(index)) > 0 for index in range(2)] == [False, True]
