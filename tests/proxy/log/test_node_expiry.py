"""Containers and TTL nodes that are due: who deletes them, how fast, and what happens if that is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from codec.constants import ErrorCode
from codec.jute import OPEN_ACL
from proxy.log.append.outbox import Outbox
from proxy.log.living import LivingProxies, LivingProxy, Peers
from proxy.log.log import Log
from proxy.log.status import LogStatus, Stats
from proxy.log.upkeep.node_expiry import NodeExpiry, Pace
from proxy.state.capture import new_machine
from proxy.state.expiry import Expiry
from proxy.state.node import Node, make_node
from proxy.support.tasks import Tasks
from schema.entry import Kind, NodeDue, decode_node_due
from schema.record import ProxyValue
from schema.znode import CONTAINER_OWNER, ttl_owner
from tests.proxy.log.proxies import until

_QUICK = Pace(check_interval=5, max_per_minute=600_000)


class Proxy:
    """A proxy whose log answers at once, first with `errors`."""

    def __init__(self, pace: Pace) -> None:
        self.machine = new_machine(1)
        self.tree = self.machine.tree
        for path, owner, created in (
            ("/used", CONTAINER_OWNER, 1),
            ("/new", CONTAINER_OWNER, 0),
            ("/short", ttl_owner(20), 0),
            ("/long", ttl_owner(1 << 30), 0),
        ):
            self.attach(path, owner, created=created)
        self.machine.zxid = 7
        self.is_eldest = True
        self.asked = 0  # for the status
        self.due: list[NodeDue] = []
        self.errors: list[ErrorCode] = []
        self.outbox = Outbox()
        self.outbox.on_arrival(self.answer)
        self.stats = Stats()
        self.living = LivingProxies()
        self.living.add(LivingProxy("a", 1, ProxyValue((1,), "")))
        self.stopped_at: float | None = None  # what its clock shows for ever
        self.expiry = NodeExpiry(cast(Log, self), Expiry(0), pace, self.time)

    def time(self) -> float:
        return asyncio.get_running_loop().time() if self.stopped_at is None else self.stopped_at

    def status(self) -> LogStatus:
        self.asked += 1
        return LogStatus(self.living, Peers(), self.stats, "a" if self.is_eldest else "b")

    def attach(self, path: str, owner: int = ttl_owner(1 << 30), mzxid: int = 7, created: int = 0) -> None:
        self.tree.attach(path, make_node(b"", OPEN_ACL, owner, 7, mzxid, 7, 1, 2, 3, created, 0))

    def answer(self) -> None:
        pending = self.outbox.queue.popleft()
        assert pending.kind == Kind.NODE_DUE
        due = decode_node_due(pending.body)
        self.due.append(due)
        error = self.errors.pop(0) if self.errors else ErrorCode.OK
        if not error and due.path in self.tree.nodes:
            self.tree.detach(due.path)
        pending.callback(pending, 8, error, b"")

    @property
    def paths(self) -> set[str]:
        return set(self.tree.expiring)


@asynccontextmanager
async def _running(pace: Pace = _QUICK) -> AsyncIterator[Proxy]:
    tasks = Tasks()
    proxy = Proxy(pace)
    tasks.start(proxy.expiry.run(), "delete what is due")
    try:
        yield proxy
    finally:
        await tasks.close()


async def test_what_is_due_goes_and_the_rest_stays() -> None:
    async with _running() as proxy:
        await until(lambda: proxy.paths == {"/new", "/long"})
        assert proxy.due[0] == ("/used", 3, 2, 7, 0)
        assert [due.path for due in proxy.due] == ["/used", "/short"]


async def test_a_proxy_that_becomes_the_eldest_knows_the_age_of_nodes_already() -> None:
    async with _running() as proxy:
        proxy.is_eldest = False
        proxy.machine.zxid = 8
        await asyncio.sleep(0.05)
        assert proxy.due == [], "only the eldest deletes"
        proxy.attach("/set", ttl_owner(30), mzxid=9)
        proxy.machine.zxid = 9
        proxy.is_eldest = True
        await until(lambda: proxy.paths == {"/new", "/long"})
        assert [due.path for due in proxy.due] == ["/used", "/short", "/set"]


async def test_no_turn_of_the_loop_is_longer_for_more_nodes() -> None:
    looked: list[int] = []

    class Watched(Expiry):
        """Counts the nodes that are looked at in one turn."""

        def due(self, path: str, node: Node, now: int) -> NodeDue | None:
            looked[-1] += 1
            return super().due(path, node, now)

    async with _running() as proxy:
        loop = asyncio.get_running_loop()
        for number in range(5000):
            proxy.attach(f"/ttl-{number}")
        proxy.expiry._expiry = Watched(0)

        def turn() -> None:
            looked.append(0)
            loop.call_soon(turn)

        turn()
        await until(lambda: sum(looked) >= 10_000)
        # Others change the tree between two turns.
        assert max(looked) < 1000
        assert proxy.asked < sum(looked) / 20, "the status is made once for a slice"


async def test_nodes_come_and_go_while_they_are_looked_at() -> None:
    async with _running() as proxy:
        for number in range(2000):
            proxy.attach(f"/ttl-{number}")
        for number in range(2000):
            proxy.tree.detach(f"/ttl-{number}")
            if number % 20 == 0:
                await asyncio.sleep(0)
        await until(lambda: proxy.paths == {"/new", "/long"})


async def test_after_a_load_ages_are_counted_anew() -> None:
    async with _running() as proxy:
        proxy.stopped_at = 1.0
        proxy.is_eldest = False
        await asyncio.sleep(0.05)
        proxy.stopped_at = 1.05
        proxy.stats.reloads += 1
        proxy.is_eldest = True
        await until(lambda: proxy.paths == {"/new", "/short", "/long"})
        proxy.stopped_at = 1.08
        await until(lambda: proxy.paths == {"/new", "/long"})


async def test_refusals_are_tried_again_at_the_next_look(caplog: pytest.LogCaptureFixture) -> None:
    async with _running() as proxy:
        proxy.errors += [ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY]  # no longer due
        await until(lambda: proxy.paths == {"/new", "/long"})
        assert len(proxy.due) == 4
    assert not caplog.records
    async with _running() as proxy:
        proxy.errors.append(ErrorCode.SYSTEM_ERROR)  # etcd has no space
        await until(lambda: proxy.paths == {"/new", "/long"})
    assert "cannot delete /used, a container or TTL node that is due: SYSTEM_ERROR" in caplog.text


async def test_the_log_has_no_more_of_a_path_than_fits(caplog: pytest.LogCaptureFixture) -> None:
    """A path may have a megabyte, and a full etcd refuses its deletion once a minute."""
    async with _running() as proxy:
        await until(lambda: proxy.paths == {"/new", "/long"})
        proxy.errors.append(ErrorCode.SYSTEM_ERROR)
        proxy.attach(f"/{'x' * 100_000}", CONTAINER_OWNER, created=1)
        await until(lambda: proxy.paths == {"/new", "/long"})
    assert 0 < len(caplog.text) < 10_000


async def test_deletions_are_paced() -> None:
    async with _running(Pace(check_interval=30, max_per_minute=600)) as proxy:
        started = asyncio.get_running_loop().time()
        await until(lambda: proxy.paths == {"/new", "/long"})
        assert asyncio.get_running_loop().time() - started >= 0.1
