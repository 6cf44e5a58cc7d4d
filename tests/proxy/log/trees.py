"""Trees put into etcd by hand, entry by entry, for tests of loads, snapshots and truncation."""

import hashlib
from collections.abc import Iterable

from codec import client as zk
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, Get, KeyValue, Op, Put, Txn, TxnResult
from proxy.log.follow.log_order import Apply, LogOrder
from proxy.log.record import Registered, create
from proxy.log.upkeep.snapshot_job import Written
from proxy.log.upkeep.snapshot_writer import write
from proxy.state import capture
from proxy.state.level import OF_NEW_TREES
from proxy.state.machine import Machine
from schema.entry import EntryWriter, Kind, Request, decode_entry, encode_terms
from schema.keys import Keyspace
from schema.record import ProxyValue, TreeRecord, decode_record, encode_proxy
from tests.proxy.log.proxies import PASSWORD

PACE = 1e12  # bytes a second
CLOCK = 1_700_000_000_000


def opened(session_id: int) -> Request:
    """A session begins."""
    return Request(Kind.OPEN, session_id, 0, (), encode_terms(30_000, PASSWORD))


def asked(session_id: int, request: zk.Request[object]) -> Request:
    """A client's request."""
    return Request(Kind.CLIENT, session_id, request.opcode, (), request.body)


def created(session_id: int, path: str, data: bytes = b"", flags: int = 0) -> Request:
    """A client creates a node."""
    return asked(session_id, zk.create(path, data, flags))


def value_of(requests: Iterable[Request], checkpoint: int = 0, digest: int = 0) -> bytes:
    """An entry."""
    writer = EntryWriter()
    for request in requests:
        writer.add(*request)
    return writer.finish(CLOCK, 0, checkpoint, digest)


class Tree:
    """A tree in one etcd, by default a model, written by proxies that are nothing but names."""

    def __init__(self, etcd: Etcd | None = None, prefix: str = "/t") -> None:
        self.etcd = etcd or FakeEtcdClient(FakeEtcd())
        self.keys = Keyspace(prefix)
        self.revisions: dict[str, int] = {}  # of proxy keys
        self.numbers: dict[str, int] = {}

    async def make(self, *incarnations: str, level: int = OF_NEW_TREES) -> "Tree":
        """The tree, with these proxies."""
        await create(self.etcd, self.keys, level)
        await self.come(*incarnations)
        return self

    @property
    def store(self) -> FakeEtcd:
        """The model, where it is one."""
        assert isinstance(self.etcd, FakeEtcdClient)
        return self.etcd.store

    def change(self, *ops: Op) -> TxnResult:
        """Change anything in the model."""
        return self.store.txn(Txn((), ops))

    def ran(self, upto: int = 1 << 62) -> Machine:
        """The state of a proxy that has been there from the beginning, up to a revision."""
        return Ran(self.store).follow(upto)

    async def come(self, *incarnations: str, levels: tuple[int, ...] = (1, 2)) -> None:
        """Proxies come, each with a session of its own in its first entry."""
        for incarnation in incarnations:
            value = encode_proxy(ProxyValue(levels, "test"))
            answer = await self.etcd.txn(Txn((), (Put(self.keys.proxy(incarnation), value),)), 5)
            self.revisions[incarnation] = answer.revision
            await self.send(incarnation, [opened(self.session(incarnation))])

    def session(self, incarnation: str) -> int:
        return 1 + hash_of(incarnation)

    async def go(self, incarnation: str) -> None:
        await self.etcd.txn(Txn((), (Delete(self.keys.proxy(incarnation)),)), 5)
        del self.revisions[incarnation]

    async def send(
        self,
        incarnation: str,
        requests: Iterable[Request],
        *,
        number: int = 0,
        checkpoint: int = 0,
        digest: int = 0,
    ) -> int:
        """Append an entry as a proxy does; its position."""
        return await self.put(incarnation, value_of(requests, checkpoint, digest), number)

    async def put(self, incarnation: str, value: bytes, number: int = 0) -> int:
        """Append whatever is given."""
        if not number:
            number = self.numbers[incarnation] = self.numbers.get(incarnation, 0) + 1
        key = self.keys.entry(incarnation, number)
        guards = (Compare(self.keys.proxy(incarnation), self.revisions[incarnation]), Compare(key, 0))
        answer = await self.etcd.txn(Txn(guards, (Put(key, value),)), 5)
        assert answer.succeeded
        return answer.revision

    async def create(self, incarnation: str, *paths: str, data: bytes = b"") -> int:
        """One entry that creates nodes."""
        session = self.session(incarnation)
        return await self.send(incarnation, [created(session, path, data) for path in paths])

    async def fill(self, incarnation: str, name: str, count: int = 40) -> None:
        """Entries enough for checkpoints, and nodes enough for pages."""
        await self.create(incarnation, f"/{name}")
        for number in range(count):
            await self.create(incarnation, f"/{name}/{number}", data=b"%d" % number)

    async def snapshot(self, incarnation: str, etcd: Etcd | None = None) -> Written:
        """Write one, by this client of etcd if one is given."""
        writer = Registered(incarnation, self.revisions[incarnation])
        return await write(etcd or self.etcd, self.keys, writer, pace=PACE)

    async def record(self) -> TreeRecord:
        return decode_record((await self.pair()).value)

    async def pair(self) -> KeyValue:
        (kv,) = (await self.etcd.range(Get(self.keys.tree), 5)).kvs
        return kv

    async def names(self, start: bytes, end: bytes) -> list[bytes]:
        return [kv.key for kv in (await self.etcd.range(Get(start, end, keys_only=True), 5)).kvs]

    async def entries(self) -> list[bytes]:
        return await self.names(self.keys.log, self.keys.log_end)

    async def snapshots(self) -> set[str]:
        """The names of all snapshots of which a page is there."""
        start, end = self.keys.snapshots, self.keys.snapshots_end
        return {name[len(start) :].decode().partition("/")[0] for name in await self.names(start, end)}


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


class Ran:
    """A proxy that has been there from the beginning: the whole history of a fake, applied."""

    def __init__(self, store: FakeEtcd) -> None:
        self.machine = capture.new_machine(store.cluster_id)
        self._order = LogOrder(Keyspace("/t"))
        self._seen = 1
        self._store = store

    def follow(self, upto: int = 1 << 62) -> Machine:
        """Apply what is new, up to a revision."""
        for events in self._store.history_from(self._seen):
            if events[0].kv.mod_revision > upto:
                break
            self._seen = events[0].kv.mod_revision + 1
            for item in self._order.items_of(events):
                if isinstance(item, Apply):
                    self.machine.apply(item.incarnation, item.number, decode_entry(item.value))
        return self.machine


def pages_of(machine: Machine) -> tuple[list[bytes], list[bytes], bytes]:
    """The whole state as bytes."""
    captured = capture.pages(machine)
    return list(captured.node_pages), list(captured.session_pages), captured.state
