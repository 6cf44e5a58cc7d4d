"""Budgets at proxies: proposed at the start, refused before an append, the same outcome at every proxy."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codec import client as zk
from codec.constants import ErrorCode
from codec.jute import Acl
from proxy.log.append import outbox
from proxy.log.append.outbox import Outbox, SpentBudgets
from proxy.log.append.pending import Pending
from proxy.log.append.sent import EntryHeader
from proxy.state.capture import new_machine
from schema.budgets import Rule, encode_rule
from schema.entry import Entry, Kind, Request, encode_terms
from tests.proxy.log.proxies import Reply, World, answered
from tests.proxy.log.trees import created

_THROTTLED = int(ErrorCode.THROTTLED_OP)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for proxy in world.proxies:
        await proxy.stop()


async def test_proxies_of_one_tree_take_the_same_decisions(world: World) -> None:
    pair = await world.pair()
    one, two = pair
    await answered([two.submit(Kind.BUDGET, 0, body=encode_rule("/x", 2, 0)), one.create(1, "/x")])
    replies: list[Reply] = []
    for number in range(30):
        some = [proxy.create(session, f"/x/{session}-{number}") for session, proxy in enumerate(pair, 1)]
        await answered(some)
        replies += some
    errors = {reply.error for reply in replies}
    assert errors == {0, _THROTTLED}
    refused = sum(reply.error == _THROTTLED for reply in replies)
    assert sum(proxy.log.stats.throttled["/x"] for proxy in pair) == refused, "each counts its own clients'"
    await world.check()
    assert one.log.machine.budgets.value == two.log.machine.budgets.value
    assert not one.disagreements + two.disagreements
    three = await world.proxy()
    await world.check()
    assert three.log.machine.budgets.value == one.log.machine.budgets.value
    assert not three.log.stats.throttled


async def test_a_proxy_makes_its_budgets_the_trees(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one, two = await world.pair()
    await answered([one.submit(Kind.BUDGET, 0, body=encode_rule("/other", 7, 0))])
    rules = [Rule("/x", 5, 0), Rule("/y", 0, 1000)]
    await world.agree()
    two.log.propose_budgets(rules)
    await world.agree()
    assert one.log.machine.budgets.rules == [Rule("/other", 7, 0), *rules]
    assert "the budget of /y is 1kB/s now" in caplog.text
    one.log.propose_budgets(rules)
    assert not one.log.outbox.queue, "they are there already"
    one.log.propose_budgets([Rule("no path", 1, 0)])
    await world.agree()
    assert "the budget no path=1/s was refused" in caplog.text


class Proxy:
    """An outbox of the proxy "own", on a tree with a spent budget of /x, and one of /y."""

    def __init__(self) -> None:
        self.machine = new_machine(1)
        self.reported: list[str] = []
        self.outbox = Outbox(budgets=SpentBudgets(self.machine, self.reported.append))
        self.outbox.begin_incarnation("own")
        entry = [
            Request(Kind.OPEN, 1, 0, (), encode_terms(4000, bytes(16))),
            Request(Kind.BUDGET, 0, 0, (), encode_rule("/x", 1, 0)),
            Request(Kind.BUDGET, 0, 0, (), encode_rule("/y", 1, 0)),
            created(1, "/x"),
        ]
        self.machine.apply("own", 1, Entry(5000, 0, 0, 0, entry))

    def submit(self, path: str, *, kind: int = Kind.CLIENT) -> None:
        request = zk.set_data(path, b"")
        self.outbox.submit(Pending(kind, 1, request.opcode, (), request.body, (path, b"", -1)))

    def submit_long(self, request: zk.Request[Any]) -> None:
        """A request that is not decoded."""
        self.outbox.submit(Pending(Kind.CLIENT, 1, request.opcode, (), request.body))

    def sends(self, clock: int = 5000) -> int:
        """How many requests the next entry has; 0 for no entry."""
        sent = self.outbox.cut(EntryHeader(clock, 0, 0, 0))
        return 0 if sent is None else len(sent.requests)


def test_what_a_spent_budget_would_refuse_is_not_appended() -> None:
    proxy = Proxy()
    for path in ("/x", "/x/y"):
        proxy.submit(path)
    assert proxy.sends() == 0
    assert [error for _, error in proxy.outbox.take_refused()] == [_THROTTLED] * 2
    assert proxy.reported == ["/x"] * 2
    proxy.submit("/x")
    assert proxy.sends(5001) == 1, "by then there is a part of a write"
    proxy.submit("/y")
    proxy.submit("/x", kind=Kind.NODE_DUE)
    assert proxy.sends() == 2, "the log decides"


def test_what_is_too_long_to_be_decoded_at_once_is_refused_by_its_first_parts() -> None:
    proxy = Proxy()
    large = [zk.check("/x"), zk.set_data("/x", bytes(100_000))]
    proxy.submit_long(zk.multi(large))
    proxy.submit_long(zk.create("/x/y", b"", acl=[Acl(31, "ip", "10.0.0.1")] * 1000))
    assert proxy.sends() == 0
    assert [error for _, error in proxy.outbox.take_refused()] == [_THROTTLED] * 2
    assert proxy.reported == ["/x"] * 2
    proxy.submit_long(zk.multi([zk.check("/x"), zk.set_data("/y", bytes(100_000))]))
    proxy.submit_long(zk.set_data("/x", b"")._replace(body=b"cut"))
    assert proxy.sends() == 2, "the log decides"
    proxy.submit_long(zk.multi(large))
    assert proxy.sends(5001) == 1, "by then there is a part of a write"


def test_nothing_is_decoded_while_no_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    monkeypatch.setattr(outbox, "beginning", None)
    proxy.submit_long(zk.multi([zk.set_data("/x", b"")]))
    assert proxy.sends(5001) == 1


def test_a_refusal_comes_after_what_the_session_has_sent_before() -> None:
    proxy = Proxy()
    for path in ("/y", "/x", "/y", "/x"):
        proxy.submit(path)
    assert proxy.sends() == 1
    sent = proxy.outbox.get(1)
    assert sent is not None
    assert proxy.sends() == 1
    assert [error for _, error in sent.after] == [_THROTTLED]
    assert proxy.sends() == 0
    assert proxy.reported == ["/x"] * 2, "each is counted once"
    assert not proxy.outbox.take_refused()


def test_very_many_requests_are_refused_over_several_turns() -> None:
    proxy = Proxy()
    for _ in range(5000):
        proxy.submit("/x")
    proxy.submit("/y")
    turns = 1
    while proxy.sends() == 0:
        assert proxy.outbox.has_next
        turns += 1
    assert turns >= 3
    assert not proxy.outbox.has_next
    assert [error for _, error in proxy.outbox.take_refused()] == [_THROTTLED] * 5000
    assert proxy.sends() == 0
    assert not proxy.outbox.has_next, "nothing is left"
