"""Opening, taking over and ending sessions, as write operations on a draft."""

from typing import Any

import pytest

from codec.constants import ErrorCode
from proxy.acl import Caller
from proxy.batch import Request
from proxy.operation import WriteOperation
from proxy.ops.session import END, END_IF_GONE, OPEN, TAKE_OVER, TakeOver
from proxy.refusal import Refusal
from schema.values import SessionValue
from tests.proxy.naive import Create
from tests.proxy.ops.room import do
from tests.proxy.world import INCARNATION, KEYS, Proxy, Store

_NEW = SessionValue("hash", 9000, "newcomer")


def _ask(proxy: Proxy, session: int, operation: WriteOperation, fields: Any) -> ErrorCode | None:
    batch = proxy.batch(1)
    request = Request(
        operation, fields, Caller(session, ()), 100, lambda _request, _zxid: None, of_session=False
    )
    assert batch.add(request)
    proxy.commit(batch)
    proxy.catch_up()
    return request.refusal


@pytest.fixture
def proxy() -> Proxy:
    """Session 1 owns /e and /d/e, session 2 owns /f; 3 is not there."""
    proxy = Proxy(Store((1, 2)))
    do(proxy, Create("/d"), Create("/e", flags=1), Create("/d/e", flags=1))
    do(proxy, Create("/f", flags=1), session=2)
    proxy.watches.fired.clear()
    return proxy


def test_opening(proxy: Proxy) -> None:
    proxy.store.lease_grant(3, 100)
    assert _ask(proxy, 3, OPEN, _NEW) is None
    assert proxy.mirror.sessions[3].value == _NEW
    assert next(kv.lease for kv in proxy.store.snapshot() if kv.key == KEYS.session(3)) == 3


def test_opening_what_is_open(proxy: Proxy) -> None:
    assert _ask(proxy, 1, OPEN, _NEW) is ErrorCode.SYSTEM_ERROR


def _waits() -> bool:
    return True


def test_a_client_that_has_given_up_takes_nothing_over(proxy: Proxy) -> None:
    wish = TakeOver("hash", _NEW, lambda: False)
    assert _ask(proxy, 1, TAKE_OVER, wish) is ErrorCode.CONNECTION_LOSS
    assert proxy.mirror.sessions[1].value.owner == INCARNATION


def test_taking_over(proxy: Proxy) -> None:
    assert _ask(proxy, 1, TAKE_OVER, TakeOver("hash", _NEW, _waits)) is None
    assert proxy.mirror.sessions[1].value.owner == "newcomer"
    assert "/e" in proxy.mirror.tree.nodes


@pytest.mark.parametrize(("session", "password_hash"), [(1, "wrong"), (3, "hash")])
def test_taking_over_what_is_not_ones_own(proxy: Proxy, session: int, password_hash: str) -> None:
    assert _ask(proxy, session, TAKE_OVER, TakeOver(password_hash, _NEW, _waits)) is ErrorCode.SESSION_EXPIRED
    assert proxy.mirror.sessions[1].value.owner == INCARNATION


def test_ending_takes_the_ephemerals_and_moves_their_parents(proxy: Proxy) -> None:
    before = proxy.mirror.revision
    assert _ask(proxy, 1, END, None) is None
    assert proxy.mirror.revision == before + 1
    assert set(proxy.mirror.tree.nodes) == {"/", "/d", "/f"}
    assert 1 not in proxy.mirror.sessions
    assert proxy.mirror.tree.nodes["/d"].pzxid == proxy.mirror.zxid
    assert sorted(proxy.watches.fired) == [(2, "/d/e"), (2, "/e")]


def test_a_session_that_moved_is_not_ended_by_its_former_proxy(proxy: Proxy) -> None:
    assert _ask(proxy, 1, TAKE_OVER, TakeOver("hash", _NEW, _waits)) is None
    assert _ask(proxy, 1, END, INCARNATION) is ErrorCode.SESSION_MOVED
    assert _ask(proxy, 1, END, "newcomer") is None


def test_ending_what_is_gone_clears_up(proxy: Proxy) -> None:
    proxy.store.lease_revoke(1)
    proxy.catch_up()
    assert proxy.sessions_changed[-1] == 1
    assert proxy.mirror.tree.orphans(proxy.mirror.sessions) == {1}
    assert _ask(proxy, 1, END_IF_GONE, None) is None
    assert set(proxy.mirror.tree.nodes) == {"/", "/d", "/f"}
    assert _ask(proxy, 1, END_IF_GONE, None) is None


def test_a_session_that_lives_is_not_cleared_up_after(proxy: Proxy) -> None:
    assert _ask(proxy, 1, END_IF_GONE, None) is None
    assert {"/e", "/d/e"} <= set(proxy.mirror.tree.nodes)


def test_two_that_clear_up_do_it_once(proxy: Proxy) -> None:
    proxy.store.lease_revoke(1)
    proxy.catch_up()
    other = Proxy(proxy.store)
    batches = []
    for each in (proxy, other):
        batch = each.batch(1)
        caller = Caller(1, ())
        assert batch.add(Request(END_IF_GONE, None, caller, 100, lambda _r, _z: None, of_session=False))
        batches.append(each.plan(batch))
    first = proxy.store.txn(batches[0])
    second = proxy.store.txn(batches[1])
    assert first.succeeded
    assert not second.succeeded
    proxy.catch_up()
    assert proxy.mirror.tree.nodes["/d"].pzxid == proxy.mirror.zxid_of(first.revision)


def test_no_client_can_ask_for_these() -> None:
    for operation in (OPEN, TAKE_OVER, END, END_IF_GONE):
        with pytest.raises(AssertionError):
            operation.decode(b"", 0)


def test_a_refusal_carries_its_code() -> None:
    assert Refusal(ErrorCode.NO_NODE).code is ErrorCode.NO_NODE
