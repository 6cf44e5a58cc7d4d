"""A committer with its mirror on the fake etcd, following the watch stream: a proxy without clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from proxy.acl import Caller
from proxy.batch import Request
from proxy.committer import LANES, Committer
from proxy.draft import Entry, SessionRecord
from proxy.etcd.model import Txn, TxnResult
from proxy.mirror import Mirror
from proxy.operation import WriteOperation
from proxy.ops.session import END
from proxy.tasks import Tasks
from tests.fakes.etcd import FakeEtcdClient
from tests.proxy import naive
from tests.proxy.naive import Create
from tests.proxy.world import INCARNATION, KEYS, RecordingWatches, Store, operation_of

SESSIONS = tuple(range(1, 9))


class Client(FakeEtcdClient):
    """A client whose Txns a test may hold up, and which can tell late Txns when to arrive."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        #: One for each next Txn: whether what is late arrives just before it.
        self.arrivals: list[bool] = []

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        self.waiting += 1
        await self.open.wait()
        self.waiting -= 1
        if self.arrivals and self.arrivals.pop(0):
            self.store.apply_late()
        return await super().txn(txn, timeout)


class Shell:
    """A committer, its mirror, and what follows the watch stream while it may."""

    def __init__(self, store: Store, incarnation: str = INCARNATION) -> None:
        self.client = Client(store)
        self.watches = RecordingWatches()
        self.mirror = Mirror(KEYS, self.watches, self)
        self.mirror.load(store.snapshot())
        self.mirror.loaded(store.revision)
        self.tasks = Tasks()
        self.committer = Committer(self.mirror, self.client, KEYS, incarnation, self.tasks)
        self.following = asyncio.Event()
        self.following.set()
        self.answers: list[tuple[int, Any, Request]] = []
        self.tasks.start(self._follow(), "follow")

    async def _follow(self) -> None:
        async for message in self.client.watch(KEYS.start, KEYS.end, self.mirror.revision + 1):
            await self.following.wait()
            if message.events:
                self.mirror.apply(message.events)

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None:
        pass

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        self.committer.lost(number, incarnation, paths)

    def marked(self, marker: bytes, value: bytes) -> dict[bytes, Entry] | None:
        return self.committer.marked(marker, value)

    def applied(self, revision: int) -> None:
        self.committer.applied(revision)

    def submit(self, session: int, asked: naive.Asked) -> Request:
        """Submit a request; `answers` gets (session, what was asked, request) when it is answered."""
        operation, fields = operation_of(asked)
        return self.submit_as(session, operation, fields, asked, of_session=operation is not END)

    def submit_as(
        self,
        session: int,
        operation: WriteOperation,
        fields: Any,
        tag: Any = None,
        *,
        of_session: bool = False,
    ) -> Request:
        """Submit any operation."""

        def done(request: Request, zxid: int) -> None:
            assert zxid <= self.mirror.zxid
            self.answers.append((session, tag, request))

        request = Request(operation, fields, Caller(session, ()), 50, done, of_session=of_session)
        self.committer.submit(request)
        return request

    async def settle(self) -> None:
        """Wait until everything is answered."""
        async with asyncio.timeout(20):
            await self.committer.drain()


async def until(condition: Callable[[], object]) -> None:
    """Let others run until the condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - whatever the condition is about has no event
            await asyncio.sleep(0.001)


@asynccontextmanager
async def shells(count: int = 1) -> AsyncIterator[tuple[Store, list[Shell]]]:
    """Proxies on one store, with a node /a."""
    store = Store(SESSIONS)
    made = [Shell(store) for _ in range(count)]
    made[0].submit(1, Create("/a"))
    await made[0].settle()
    made[0].answers.clear()
    await until(lambda: all("/a" in shell.mirror.tree.nodes for shell in made))
    for number, shell in enumerate(made[1:], 2):
        # Other proxies have other markers; sessions do not mind, as far as these tests go.
        shell.committer = Committer(shell.mirror, shell.client, KEYS, INCARNATION, shell.tasks, lanes=0)
        for _ in range(LANES):
            lane = shell.committer._new_lane()
            lane.key = KEYS.marker(f"cafe{number}", shell.committer._lane_count)
            shell.committer._free.append(lane)
    try:
        yield store, made
    finally:
        for shell in made:
            await shell.tasks.close()
