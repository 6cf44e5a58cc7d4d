"""liboffkv's operations directly on etcd, as its own etcd backend does them: one Range or one Txn for each.

A key has a NUL byte before its last part, so the keys directly below a key are one range, and all keys below
it are one range. What follows from that, and from etcd's Txns, is in the list: see `Line.on_etcd`.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from codec.client import Event as Notification
from codec.constants import EventType
from examples.offkv.store import (
    Check,
    Create,
    EntryExists,
    Erase,
    Found,
    NoEntry,
    ServiceError,
    Set,
    TxnFailed,
)
from lab.client.session import Watch
from proxy.etcd import rpc, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import PUT, EtcdError, EtcdRefused, Event, Get, KeyValue, RangeResult, WatchMessage
from proxy.support.tasks import Tasks

_LEASE_S = 10  # as liboffkv's
_TIMEOUT_S = 10.0
_EQUAL, _GREATER = pb.Compare.EQUAL, pb.Compare.GREATER


class _Client(EtcdClient):
    """A client whose Txns may compare versions and leases: zketcd's compare revisions only."""

    async def commit(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Commit a Txn. Raises what `txn` raises."""
        decode = partial(wire.decode, pb.TxnResponse)
        return await self._rpc.ask(rpc.Call(rpc.TXN, request.SerializeToString(), _TIMEOUT_S, decode))


class _Fired(Exception):
    """A watch has fired."""


class _Condition(NamedTuple):
    """What a Txn compares, and reads if it fails: the key has this version, 0 for absent, None for any."""

    key: bytes
    version: int | None = None

    def compare(self) -> pb.Compare:
        if self.version:
            return pb.Compare(key=self.key, target=pb.Compare.VERSION, result=_EQUAL, version=self.version)
        result = _GREATER if self.version is None else _EQUAL
        return pb.Compare(key=self.key, target=pb.Compare.MOD, result=result, mod_revision=0)

    def holds(self, kvs: Sequence[pb.KeyValue]) -> bool:
        return bool(kvs) if self.version is None else (kvs[0].version if kvs else 0) == self.version


class EtcdStore:
    """Keys below a prefix. The methods are those of `Store`, which documents them."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        self._endpoint = endpoint
        self._prefix = prefix
        self._begin()

    def _begin(self) -> None:
        self._tasks = Tasks()
        self._client = _Client([self._endpoint])
        self._lease = 0

    async def make_prefix(self) -> None:
        """etcd is flat: nothing has to be there."""

    async def close(self) -> None:
        """End the lease, and with it the keys. liboffkv lets it run out instead, which takes up to 10 s."""
        await self._tasks.close()
        if self._lease:
            await self._client.lease_revoke(self._lease)
        await self._client.close()

    async def reopen(self) -> None:
        """Close, and begin anew."""
        await self.close()
        self._begin()

    async def clear(self, root: str) -> None:
        """Delete everything below a path."""
        await self._commit([], [_delete(f"{root}/".encode(), f"{root}0".encode())])

    async def create(self, key: str, value: bytes, *, lease: bool = False) -> int:
        """See `Store`."""
        path, lease_id = self._path(key), await self._leased() if lease else 0
        conditions = [*self._parent(key), _Condition(path, 0)]
        answer = await self._commit(conditions, [_put(path, value, lease_id)])
        if not answer.succeeded:
            raise EntryExists(key) if answer.responses[-1].response_range.kvs else NoEntry(key)
        return 1

    async def exists(self, key: str, *, watch: bool = True) -> tuple[int, Watch]:
        """See `Store`."""
        found = await self._range(key)
        there = bool(found.kvs)

        def event(event: Event) -> EventType | None:
            if (event.type == PUT) == there:
                return None
            return EventType.NODE_DELETED if there else EventType.NODE_CREATED

        return found.kvs[0].version if there else 0, self._watch(watch, key, found.revision, event)

    async def get(self, key: str, *, watch: bool = True) -> Found:
        """See `Store`."""
        found = await self._range(key)
        if not found.kvs:
            raise NoEntry(key)

        def event(event: Event) -> EventType:
            return EventType.NODE_DATA_CHANGED if event.type == PUT else EventType.NODE_DELETED

        pair: KeyValue = found.kvs[0]
        return Found(pair.version, pair.value, self._watch(watch, key, found.revision, event))

    async def get_children(self, key: str, *, watch: bool = True) -> tuple[list[str], Watch]:
        """See `Store`."""
        start, end = self._below(key, b"/\0"), self._below(key, b"/\1")
        answer = await self._commit([_Condition(self._path(key))], [_read(start, end)])
        if not answer.succeeded:
            raise NoEntry(key)
        there = {pair.key for pair in answer.responses[0].response_range.kvs}

        def event(event: Event) -> EventType | None:
            changes = (event.type == PUT) != (event.kv.key in there)
            return EventType.NODE_CHILDREN_CHANGED if changes else None

        names = [f"{key}/{name[len(start) :].decode()}" for name in sorted(there)]
        return names, self._watch(watch, key, answer.header.revision, event, start, end)

    async def set(self, key: str, value: bytes) -> int:
        """See `Store`. The lease of a key stays, so etcd is asked again if it has one."""
        path, conditions = self._path(key), self._parent(key)
        leaseless = pb.Compare(key=path, target=pb.Compare.LEASE, result=_EQUAL, lease=0)
        is_leased = False
        while True:
            compares = [] if is_leased else [leaseless]
            answer = await self._commit(
                conditions, [_put(path, value, keep=is_leased), _read(path)], compares
            )
            if answer.succeeded:
                return answer.responses[1].response_range.kvs[0].version
            if conditions and not answer.responses[0].response_range.kvs:
                raise NoEntry(key)
            is_leased = not is_leased

    async def cas(self, key: str, value: bytes, version: int = 0) -> int:
        """See `Store`."""
        if version == 0:
            try:
                return await self.create(key, value)
            except EntryExists:
                return 0
        path = self._path(key)
        answer = await self._commit([_Condition(path, version)], [_put(path, value, keep=True)])
        if answer.succeeded:
            return version + 1
        if not answer.responses[0].response_range.kvs:
            raise NoEntry(key)
        return 0

    async def erase(self, key: str, version: int = 0) -> None:
        """See `Store`."""
        answer = await self._commit([_Condition(self._path(key), version or None)], self._erasure(key))
        if not answer.succeeded and not answer.responses[0].response_range.kvs:
            raise NoEntry(key)

    async def commit(self, checks: Sequence[Check], operations: Sequence[Create | Set | Erase]) -> list[int]:
        """See `Store`. Raises ServiceError where operations touch one key: etcd refuses such a Txn."""
        conditions = [_Condition(self._path(each.key), each.version or None) for each in checks]
        of = list(range(len(checks)))  # of each condition, the check or operation
        success: list[pb.RequestOp] = []
        versions: list[int] = []  # where in `success` each is, -1 for a key that is new
        for index, operation in enumerate(operations, len(checks)):
            path = self._path(operation.key)
            if isinstance(operation, Create):
                needs = [_Condition(path, 0), *self._parent(operation.key)]
                success.append(_put(path, operation.value, await self._leased() if operation.lease else 0))
                versions.append(-1)
            else:
                needs = [_Condition(path)]
                if isinstance(operation, Set):
                    success += _put(path, operation.value), _read(path)
                    versions.append(len(success) - 1)
                else:
                    success += self._erasure(operation.key)
            conditions += needs
            of += [index] * len(needs)
        answer = await self._commit(conditions, success)
        responses = answer.responses
        if not answer.succeeded:
            raise TxnFailed(
                next(
                    index
                    for index, condition, response in zip(of, conditions, responses, strict=True)
                    if not condition.holds(response.response_range.kvs)
                )
            )
        return [1 if at < 0 else responses[at].response_range.kvs[0].version for at in versions]

    async def _commit(
        self,
        conditions: Sequence[_Condition],
        success: Sequence[pb.RequestOp],
        more: Sequence[pb.Compare] = (),
    ) -> pb.TxnResponse:
        """A Txn; if it fails, its responses are what each condition's key is."""
        request = pb.TxnRequest(
            compare=[*(condition.compare() for condition in conditions), *more],
            success=success,
            failure=[_read(condition.key) for condition in conditions],
        )
        try:
            return await self._client.commit(request)
        except EtcdRefused as error:
            raise ServiceError(error.message) from error

    async def _range(self, key: str) -> RangeResult:
        return await self._client.range(Get(self._path(key), limit=1), _TIMEOUT_S)

    async def _leased(self) -> int:
        """The lease of this client, which is kept alive until it is closed."""
        if not self._lease:
            self._lease = secrets.randbits(62)
            await self._client.lease_grant(self._lease, _LEASE_S)
            self._tasks.start(self._keep_alive(self._lease), "keep a lease alive")
        return self._lease

    async def _keep_alive(self, lease: int) -> None:
        send = self._client.lease_keeper(lambda _lease, _ttl: None)
        while True:
            await asyncio.sleep(_LEASE_S / 2)
            send(lease)

    def _watch(
        self,
        wanted: bool,
        key: str,
        revision: int,
        event_of: Callable[[Event], EventType | None],
        start: bytes = b"",
        end: bytes = b"",
    ) -> Watch:
        """What fires at the first event after a revision that counts: of the key, or of a range."""
        watch = Watch()

        def take(message: WatchMessage) -> None:
            for kind in filter(None, map(event_of, message.events)):
                watch.fire(Notification(kind, key))
                raise _Fired

        async def follow() -> None:
            try:
                await self._client.watch(start or self._path(key), end, revision + 1, take)
            except EtcdError:
                watch.fire(None)

        if wanted:
            self._tasks.start(follow(), f"watch {key}", reported=(_Fired,))
        return watch

    def _parent(self, key: str) -> list[_Condition]:
        """That the key above is there, if there has to be one."""
        above = key.rpartition("/")[0]
        return [_Condition(self._path(above))] if above else []

    def _erasure(self, key: str) -> list[pb.RequestOp]:
        return [_delete(self._path(key)), _delete(self._below(key, b"/"), self._below(key, b"0"))]

    def _path(self, key: str) -> bytes:
        above, _, name = key.rpartition("/")
        return f"{self._prefix}{above}/\0{name}".encode()

    def _below(self, key: str, end: bytes) -> bytes:
        return f"{self._prefix}{key}".encode() + end


def _put(key: bytes, value: bytes, lease: int = 0, *, keep: bool = False) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease, ignore_lease=keep))


def _read(key: bytes, end: bytes = b"") -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key, range_end=end, keys_only=True))


def _delete(key: bytes, end: bytes = b"") -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=end))
