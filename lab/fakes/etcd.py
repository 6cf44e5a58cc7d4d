"""The etcd client of tests: the interface of proxy.etcd.client on a FakeEtcd in the same process."""

import asyncio
from collections import deque
from collections.abc import Callable

from lab.fakes.etcd_store import FakeEtcd, Fate, Watcher
from proxy.etcd.interface import Calls
from proxy.etcd.model import (
    EtcdError,
    EtcdNoSpace,
    EtcdUnknown,
    Event,
    Get,
    RangeResult,
    Status,
    Txn,
    TxnResult,
    WatchMessage,
)
from proxy.etcd.transport import InFlight

__all__ = ["FakeEtcd", "FakeEtcdClient", "Fate"]


class FakeEtcdClient:
    """One client of a FakeEtcd, with the methods of EtcdClient."""

    def __init__(self, store: FakeEtcd) -> None:
        self.store = store
        #: The fates of the next Txns, first to come first; when it is empty they succeed.
        self.fates: deque[Fate] = deque()
        #: While set, every request fails as unknown, and so do open watches.
        self.unreachable = False
        #: How many messages with events its watches leave out from now on, as in etcd's issue 17529.
        self.leaves_out = 0
        self.left_out: list[Event] = []
        self.last_contact = 0.0
        self.calls = Calls()
        self._watchers: set[Watcher] = set()
        self._begun: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        """A name for logs."""
        return "fake"

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        """Commit `txn`, unless `fates` orders another outcome."""
        fate = self.fates.popleft() if self.fates else None
        await self._contact()
        if fate is None:
            return self.store.txn(txn)
        if fate is Fate.LATE:
            self.store.hold(txn)
        elif fate in (Fate.ANSWER_LOST, Fate.NO_SPACE_APPLIED):
            self.store.txn(txn)
        if fate in (Fate.NO_SPACE, Fate.NO_SPACE_APPLIED):
            raise EtcdNoSpace("etcdserver: mvcc: database space exceeded")
        raise EtcdUnknown(f"a test ordered it: {fate.name}")

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """Read."""
        await self._contact()
        return self.store.range(get)

    async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
        """Make a lease."""
        await self._contact()
        return self.store.lease_grant(lease_id, ttl)

    async def lease_revoke(self, lease_id: int, timeout: float = 5.0) -> None:
        """End a lease."""
        await self._contact()
        self.store.lease_revoke(lease_id)

    def lease_keeper(
        self, on_alive: Callable[[int, int], None], answer_timeout: float = 3.0
    ) -> Callable[[int], None]:
        """Renews at once while etcd is reachable; what is asked for meanwhile waits for the next request."""
        waiting: dict[int, None] = {}

        def renew() -> None:
            while waiting and not self.unreachable:
                lease = next(iter(waiting))
                del waiting[lease]
                self.last_contact = self.store.now
                on_alive(lease, self.store.lease_renew(lease))

        def send(lease: int) -> None:
            # The answer comes by a callback, never from within this call.
            waiting[lease] = None
            asyncio.get_running_loop().call_soon(renew)

        return send

    async def status(self, timeout: float = 5.0) -> Status:
        """Ask the only member."""
        await self._contact()
        store = self.store
        alarms = ["memberID:1 alarm:NOSPACE "] if store.full else []
        sizes = (store.file.size, store.file.in_use)
        return Status(
            store.version, store.cluster_id, 1, *sizes, 1, store.revision, 2, store.revision, alarms
        )

    async def versions(self, timeout: float = 5.0) -> list[str]:
        """The version of the only member."""
        return ["" if self.unreachable else self.store.version]

    def begin_txn(
        self, txn: Txn, timeout: float, on_answer: Callable[[TxnResult | EtcdError], None]
    ) -> InFlight:
        """As `txn`, but the answer goes to a callback."""

        async def ask() -> None:
            try:
                answer: TxnResult | EtcdError = await self.txn(txn, timeout)
            except EtcdError as error:
                answer = error
            on_answer(answer)

        task = asyncio.get_running_loop().create_task(ask())
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    async def watch(
        self, start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
    ) -> None:
        """Follow the changes of a range until an exception ends it."""
        await self._contact()
        watcher = self.store.watch(start, end, from_revision)
        self._watchers.add(watcher)
        try:
            while True:
                message = await watcher.queue.get()
                if isinstance(message, Exception):
                    raise message
                self.last_contact = self.store.now
                if self.leaves_out and message.events:
                    self.leaves_out -= 1
                    self.left_out += message.events
                    message = message._replace(events=())
                on_message(message)
        finally:
            self._watchers.discard(watcher)
            self.store.unwatch(watcher)

    def watched_member_is_suspect(self) -> bool:
        """There is one member only."""
        return False

    def leave_watched_member(self) -> None:
        """There is one member only."""

    def disconnect(self) -> None:
        """Make etcd unreachable for this client alone, until `reconnect`."""
        self.unreachable = True
        for watcher in self._watchers:
            watcher.queue.put_nowait(EtcdUnknown("the fake is unreachable"))
            self.store.unwatch(watcher)

    def reconnect(self) -> None:
        """Undo `disconnect`."""
        self.unreachable = False

    async def close(self) -> None:
        """End the watches."""
        self.disconnect()

    async def _contact(self) -> None:
        await asyncio.sleep(0)  # as with a real server, others run before the answer is there
        if self.unreachable:
            raise EtcdUnknown("the fake is unreachable")
        self.last_contact = self.store.now
