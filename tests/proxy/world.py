"""The proxy's pure core on the fake etcd: batches in, events back into a mirror. No event loop, no clock."""

import itertools
from collections.abc import Sequence
from typing import Any

from codec.constants import CreateMode, ErrorCode, OpCode
from codec.jute import Acl, pack_strings
from codec.packets import STAT
from proxy import plan
from proxy.acl import Caller
from proxy.batch import Batch, Request
from proxy.draft import Entry, SessionRecord
from proxy.etcd.model import Put, Txn, TxnResult, chain_cost
from proxy.mirror import Mirror
from proxy.operation import WriteOperation
from proxy.ops import EXTENDED, FEATURES
from proxy.ops.check import CHECK
from proxy.ops.features import system_nodes
from proxy.ops.multi import MULTI, Failure, Kind
from proxy.ops.session import END
from proxy.rules import DEFAULT_RULES
from proxy.watches import WatchTable
from schema.keys import Keyspace
from schema.paths import ROOT
from schema.values import OPEN_ACL, SessionValue, TreeRecord, encode_node, encode_session, encode_tree
from tests.fakes.etcd import FakeEtcd
from tests.proxy import naive

KEYS = Keyspace("/test")
INCARNATION = "cafe"
MARKER = KEYS.marker(INCARNATION, 1)
_OPERATIONS = {**EXTENDED.writes, OpCode.CHECK: CHECK}
IDENTITIES: tuple[Any, ...] = ()


class RecordingWatches(WatchTable):
    """A watch table that notes what is fired."""

    def __init__(self) -> None:
        super().__init__()
        self.fired: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return True  # somebody watches everything

    def fire(self, kind: int, path: str, zxid: int, acl: Sequence[Acl], parent_acl: Sequence[Acl]) -> None:
        self.fired.append((kind, path))
        super().fire(kind, path, zxid, acl, parent_acl)


class Proxy:
    """One mirror on a store, fed on demand."""

    def __init__(self, store: "Store", *, load: bool = True) -> None:
        self.store = store
        self.rules = DEFAULT_RULES
        self.watches = RecordingWatches()
        self.mirror = Mirror(KEYS, self.watches, self)
        self.sessions_changed: list[int] = []
        self.applied_up_to = 0
        self._own: dict[
            bytes, dict[bytes, Entry]
        ] = {}  # what Txns of this proxy put, by their marker's value
        if load:
            self.mirror.load(store.snapshot())
            self.mirror.loaded(store.revision)
        self._watcher = store.watch(KEYS.start, KEYS.end, store.revision + 1)

    def catch_up(self) -> None:
        """Apply what etcd has sent."""
        while not self._watcher.queue.empty():
            message = self._watcher.queue.get_nowait()
            assert not isinstance(message, Exception)
            self.mirror.apply(message.events)

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None:
        assert self.mirror.sessions.get(session_id) == record
        self.sessions_changed.append(session_id)

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        assert number.isdecimal()
        assert incarnation

    def marked(self, marker: bytes, value: bytes) -> dict[bytes, Entry] | None:
        assert marker.startswith(KEYS.markers)
        return self._own.pop(value, None)

    def applied(self, revision: int) -> None:
        assert revision >= self.applied_up_to
        self.applied_up_to = revision

    def batch(self, now: int) -> Batch:
        """An empty batch on what the mirror shows."""
        mirror = self.mirror
        return Batch(mirror.tree, mirror.sessions, {}, INCARNATION, mirror.revision, now, rules=self.rules)

    def plan(self, batch: Batch) -> Txn:
        """The Txn of a batch, as it may go out; a lane of its own makes its marker's guard hold."""
        marker = self.store.range_now(MARKER)
        value = b"txn %d" % next(_SERIALS)
        txn, self._own[value] = plan.build(batch, KEYS, MARKER, marker, value, loser=INCARNATION, rivals=True)
        assert chain_cost(txn) <= 128
        return txn

    def commit(self, batch: Batch) -> TxnResult:
        """Commit a batch; the mirror is not told yet."""
        return self.store.txn(self.plan(batch))


def with_keeper(proxy: Proxy) -> None:
    """Let the proxy tell of Keeper's extensions."""
    proxy.mirror.tree.system.update(system_nodes(FEATURES, 1000, ""))


_SERIALS = itertools.count(1)  # all proxies of the tests share one lane, in which no value comes twice


class Store(FakeEtcd):
    """A fake etcd with a tree that holds the root alone, and living sessions."""

    def __init__(self, sessions: Sequence[int]) -> None:
        super().__init__()
        puts = [
            Put(KEYS.tree, encode_tree(TreeRecord(True, ((0, 0),), 1))),
            Put(KEYS.node(ROOT), encode_node(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0)),
            Put(MARKER, b"open 1"),
        ]
        for session_id in sessions:
            self.lease_grant(session_id, 1000)
            value = SessionValue("hash", 4000, INCARNATION)
            puts.append(Put(KEYS.session(session_id), encode_session(value), session_id))
        self.txn(Txn((), puts))

    def range_now(self, key: bytes) -> int:
        """The mod_revision of a key, 0 if it is absent."""
        return next((kv.mod_revision for kv in self.snapshot() if kv.key == key), 0)


def naive_tree(sessions: Sequence[int]) -> naive.NaiveZooKeeper:
    """The naive model in the same state as a new Store."""
    root = naive.Znode(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0)
    return naive.NaiveZooKeeper({ROOT: root}, set(sessions))


def operation_of(asked: naive.Asked) -> tuple[WriteOperation, Any]:
    """The operation and fields that the codec would give for a request."""
    if isinstance(asked, naive.CloseSession):
        return END, None
    if isinstance(asked, naive.Multi):
        parts = [(Kind(opcode, _OPERATIONS[opcode]), _fields(part)) for part, opcode in _opcodes(asked)]
        return MULTI, parts
    return _OPERATIONS[naive.opcode(asked)], _fields(asked)


def _opcodes(multi: naive.Multi) -> list[tuple[naive.Single, Any]]:
    return [(part, naive.opcode(part)) for part in multi.parts]


def _fields(asked: naive.Single) -> Any:
    if isinstance(asked, naive.Create | naive.CreateIfNotExists):
        return asked.path, asked.data, asked.acl, asked.flags
    if isinstance(asked, naive.CreateMortal):
        flags = 2 if asked.sequential else CreateMode.CONTAINER
        if asked.ttl is None:
            return asked.path, asked.data, asked.acl, flags
        return asked.path, asked.data, asked.acl, 6 if asked.sequential else 5, asked.ttl
    if isinstance(asked, naive.DeleteContainer):
        return asked.path
    if isinstance(asked, naive.SetAcl):
        return asked.path, asked.acl, asked.version
    return tuple(asked)


def request_of(session_id: int, asked: naive.Asked, *, solo: bool = False) -> Request:
    """A request as a connection would submit it."""
    operation, fields = operation_of(asked)
    of_session = not isinstance(asked, naive.CloseSession)
    return Request(
        operation, fields, Caller(session_id, IDENTITIES), 50, _no_one, of_session=of_session, solo=solo
    )


def _no_one(_request: Request, _zxid: int) -> None:
    raise AssertionError("nobody answers in these tests")


def answer_of(request: Request, zxid: int) -> Any:
    """A request's answer as the naive model gives it: Answer, MultiAnswer or the error's code."""
    if request.refusal is not None:
        return request.refusal
    result = request.result
    if isinstance(result, Failure):
        return naive.MultiAnswer([], result.position, result.code)
    if isinstance(result, list):
        return naive.MultiAnswer([_answer(single, zxid) for _, single in result], None, ErrorCode.OK)
    return _answer(result, zxid)


def _answer(result: Any, zxid: int) -> naive.Answer:
    if result is None:
        return naive.Answer()
    if isinstance(result, str):
        return naive.Answer(result)
    path, stat = result if len(result) == 2 else (None, result)
    known = list(stat)
    for place in (0, 1, 10):
        if known[place] == -1:
            known[place] = zxid
    return naive.Answer(path, tuple(known))


def naive_answer(
    model: naive.NaiveZooKeeper, session_id: int, asked: naive.Asked, zxid: int, now: int
) -> Any:
    """The naive model's answer in the same form."""
    try:
        return model.apply(session_id, asked, zxid, now)
    except naive.Refused as refused:
        return refused.code


def assert_same_tree(proxy: Proxy, model: naive.NaiveZooKeeper) -> None:
    """The mirror shows exactly the naive model's nodes, Stats, children, ephemerals and sessions."""
    tree = proxy.mirror.tree
    assert set(tree.nodes) == set(model.nodes)
    owned: dict[int, set[str]] = {}
    for path, expected in model.nodes.items():
        node = tree.nodes[path]
        assert STAT.unpack(node.stat()) == model.stat(path), path
        assert (node.data, node.acl) == (expected.data, expected.acl), path
        assert sorted(node.children or ()) == model.children(path), path
        assert node.names() == pack_strings(node.children or ()), path
        if expected.owner:
            owned.setdefault(expected.owner, set()).add(path)
    assert tree.ephemerals == owned
    assert tree.mortal == {path for path, node in model.nodes.items() if node.mortal}
    assert tree.data_size == sum(len(path) + len(node.data or b"") for path, node in tree.nodes.items())
    assert set(proxy.mirror.sessions) == model.sessions
