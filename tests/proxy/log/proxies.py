"""Proxies without clients, for tests of the log: a `Log` each, sessions opened by hand, replies noted."""

import asyncio
import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Container, Sequence

from codec import client as zk
from codec.constants import OpCode
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from proxy.etcd.interface import Etcd
from proxy.log.append.pending import Pending
from proxy.log.context import Context, LogSettings
from proxy.log.follow.log_order import Apply, EntriesGone, LogOrder
from proxy.log.log import Log
from proxy.log.status import Stats
from proxy.state.capture import new_machine
from proxy.state.outcome import CarriedOver, Disagreement, SessionChange
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.watches import WatchTable
from proxy.support.environment import HOST, Environment
from proxy.support.tasks import Tasks
from schema.entry import Kind, Request, decode_entry, encode_close, encode_terms
from schema.keys import Keyspace

PASSWORD = hashlib.sha256(b"secret").digest()[:16]
EPHEMERAL, SEQUENTIAL = 1, 2
_turns = itertools.count(1)


class Reply:
    """What became of one request."""

    def __init__(self, session_id: int, path: str) -> None:
        self.session_id = session_id
        self.path = path
        self.zxid = 0
        self.error: int | None = None
        self.body = b""
        self.times = 0
        self.turn = 0  # which of all answers it was
        self.floor = 0  # of a sync: the highest zxid that any client had seen before it was sent


class Proxy:
    """One proxy; what the log reports, it keeps itself."""

    def __init__(
        self,
        etcd: Etcd,
        prefix: str = "/t",
        settings: LogSettings | None = None,
        environment: Environment = HOST,
    ) -> None:
        self.etcd = etcd
        self.tasks = Tasks()
        self.watches = WatchTable()
        self.changes: list[SessionChange] = []
        self.came: list[str] = []
        self.registered_as = ""
        self.over: list[str] = []  # its incarnations whose sessions were carried over
        self.gone: dict[str, float] = {}  # incarnations, and the leases that they had
        self.stops: list[str] = []
        self.living: Container[str] = ()  # as of the last load
        self.disagreements: list[Disagreement] = []
        self.deleted: list[EntriesGone] = []
        self.replies: list[Reply] = []
        settings = settings or LogSettings(lease_seconds=5)
        context = Context(etcd, Keyspace(prefix), self.tasks, new_machine(0), Stats(), settings, environment)
        self.log = Log(
            context, self.watches, self, self.stops.append, self.disagreements.append, self.deleted.append
        )

    # What the log reports

    def registered(self, incarnation: str) -> None:
        self.registered_as = incarnation

    def carried_over(self, former: str) -> None:
        assert former not in {session.incarnation for session in self.log.machine.sessions.values()}
        self.over.append(former)

    def session_changed(self, change: SessionChange) -> None:
        self.changes.append(change)

    def all_changed(self, carried: CarriedOver) -> None:
        self.changes += (SessionChange(each, *carried[:2]) for each in carried.session_ids)

    def proxy_came(self, incarnation: str) -> None:
        self.came.append(incarnation)

    def proxy_gone(self, incarnation: str, lease: float) -> None:
        self.gone[incarnation] = lease

    def loaded(self, living: Container[str], _pause: Pause = NO_PAUSE) -> None:
        assert all(proxy.incarnation in living for proxy in self.log.living)
        self.living = living

    # What a test does

    async def start(self) -> "Proxy":
        await self.log.load()
        await self.log.start()
        return self

    async def stop(self) -> None:
        await self.log.stop()
        await self.tasks.close()

    def submit(
        self, kind: int, session_id: int, opcode: int = 0, body: bytes = b"", *, path: str = ""
    ) -> Reply:
        reply = Reply(session_id, path)
        self.replies.append(reply)

        def done(_pending: Pending, zxid: int, error: int, answer: bytes) -> None:
            reply.times += 1
            reply.turn = next(_turns)
            reply.zxid, reply.error, reply.body = zxid, error, answer

        self.log.outbox.submit(Pending(kind, session_id, opcode, (), body, callback=done))
        return reply

    def open(self, session_id: int) -> Reply:
        return self.submit(Kind.OPEN, session_id, body=encode_terms(30_000, PASSWORD))

    def close(self, session_id: int, holder: str = "") -> Reply:
        return self.submit(Kind.CLOSE, session_id, body=encode_close("test", holder))

    def ask(self, session_id: int, request: zk.Request[object], path: str = "") -> Reply:
        """A client's request; `path` of a node that it creates."""
        return self.submit(Kind.CLIENT, session_id, request.opcode, request.body, path=path)

    def create(self, session_id: int, path: str, data: bytes = b"", flags: int = 0) -> Reply:
        return self.ask(session_id, zk.create(path, data, flags), path)

    def sync(self, session_id: int) -> Reply:
        return self.ask(session_id, zk.sync())

    async def barrier(self) -> int:
        """Wait until everything that is in the log when this is called is applied here; the zxid then."""
        # No client's session: it is answered as expired, but in its turn, and it is in an entry.
        reply = self.ask(0, zk.sync())
        self.replies.remove(reply)
        await answered([reply])
        return reply.zxid

    def paths(self) -> set[str]:
        return {path for path in self.log.machine.tree.nodes if path.startswith("/x")}


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something holds."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError("it never came to hold")
        await asyncio.sleep(0.005)


async def answered(replies: Sequence[Reply], seconds: float = 20.0) -> None:
    """Wait until all requests have their outcomes."""
    await until(lambda: all(reply.times for reply in replies), seconds)


def log_of(store: FakeEtcd) -> list[Request]:
    """All requests that took effect, by the model's history: in tests that do not truncate."""
    order = LogOrder(Keyspace("/t"))
    items = [item for events in store.history_from(1) for item in order.items_of(events)]
    return [
        request for item in items if isinstance(item, Apply) for request in decode_entry(item.value).requests
    ]


class World:
    """An etcd and its proxies."""

    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.proxies: list[Proxy] = []

    async def proxy(self) -> Proxy:
        return await self.proxy_with()

    async def proxy_with(self, settings: LogSettings | None = None) -> Proxy:
        proxy = Proxy(FakeEtcdClient(self.store), settings=settings)
        self.proxies.append(proxy)
        return await proxy.start()

    def sync(self, proxy: Proxy, session_id: int) -> Reply:
        """A sync, which `check` compares with what had been answered before it."""
        floor = max(reply.zxid for each in self.proxies for reply in each.replies)
        reply = proxy.sync(session_id)
        reply.floor = floor
        return reply

    async def pair(self) -> tuple[Proxy, Proxy]:
        """Two proxies, with the session 1 at the first and 2 at the other."""
        one, two = await self.proxy(), await self.proxy()
        await answered([one.open(1), two.open(2)])
        return one, two

    def client(self, proxy: Proxy) -> FakeEtcdClient:
        assert isinstance(proxy.etcd, FakeEtcdClient)
        return proxy.etcd

    def end_lease(self, proxy: Proxy) -> None:
        """The proxy's lease runs out, if it is registered."""
        if not proxy.log.status().is_registered:
            return
        key = f"/t/live/proxy/{proxy.log.incarnation}".encode()
        for pair in self.store.snapshot():
            if pair.key == key:
                self.store.lease_revoke(pair.lease)

    async def append_unheard(self, proxy: Proxy) -> Reply:
        """A request whose entry gets to etcd just when its proxy falls asleep."""
        self.client(proxy).fates.append(Fate.LATE)
        reply = proxy.create(1, "/xa")
        await until(lambda: not self.client(proxy).fates)
        await asyncio.sleep(0)
        self.client(proxy).disconnect()
        (result,) = self.store.apply_late()
        assert result.succeeded
        return reply

    async def agree(self) -> None:
        """All proxies have applied everything, and have the same state."""
        for proxy in self.proxies + self.proxies:
            await proxy.barrier()
        # What the last barrier has put into the log is applied at the others as well.
        await until(lambda: len({proxy.log.machine.entries for proxy in self.proxies}) == 1)
        machines = [proxy.log.machine for proxy in self.proxies]
        states = [(each.compute_digest(), each.zxid, each.entries, each.applied) for each in machines]
        assert all(state == states[0] for state in states)

    async def check(self) -> None:
        """All proxies agree, and each request took effect once, or never where it was refused."""
        await self.agree()
        first = self.proxies[0].log.machine
        creates = [request.body for request in log_of(self.store) if request.opcode == OpCode.CREATE]
        assert not [body for body, times in Counter(creates).items() if times > 1]
        for proxy in self.proxies:
            assert all(reply.times == 1 for reply in proxy.replies)
            assert (proxy.log.outbox.bytes, proxy.log.outbox.unanswered) == (0, 0)
            assert all(reply.zxid >= reply.floor for reply in proxy.replies if reply.error == 0)
            by_session: dict[int, list[Reply]] = {}
            for session_id in {reply.session_id for reply in proxy.replies if reply.session_id}:
                turns = [reply.turn for reply in proxy.replies if reply.session_id == session_id]
                assert turns == sorted(turns)
            for reply in proxy.replies:
                if reply.path:
                    by_session.setdefault(reply.session_id, []).append(reply)
            for replies in by_session.values():
                for reply in replies:
                    there = reply.path in first.tree.nodes
                    assert there == (reply.error == 0), (reply.path, reply.error)
                done = [first.tree.nodes[reply.path].czxid for reply in replies if reply.error == 0]
                assert done == sorted(done)
                assert [reply.zxid for reply in replies if reply.error == 0] == done
