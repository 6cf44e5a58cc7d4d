"""etcd in memory: a small deterministic model with the methods of EtcdClient.

Checked against real etcd by tests/proxy/etcd/test_fake.py. `FakeEtcd` is the store, `FakeEtcdClient` one
proxy's view of it; several clients may share a store. Time moves only by `advance`, faults come on request.
What is modelled is what a client sees: no Raft, no authentication, no TLS.
"""

import asyncio
import bisect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from enum import Enum, auto
from itertools import zip_longest
from typing import Any, NamedTuple

from proxy.etcd import wire
from proxy.etcd.model import (
    DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_MAX_TXN_OPS,
    DELETE,
    PUT,
    Compare,
    Delete,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Event,
    Get,
    KeyValue,
    Op,
    Put,
    RangeResult,
    RefusalKind,
    Txn,
    TxnResult,
    WatchCompacted,
    WatchMessage,
)
from proxy.etcd.versions import parse

_LEAST_TTL = 2  # seconds; etcd derives it from its election timeout
# What etcd counts for a key and for a lease beside their bytes (etcdserver/quota.go).
_KEY_OVERHEAD = 256
_LEASE_OVERHEAD = 64
# What a backup has.
_DATA = ("revision", "compacted", "file", "_sorted_keys", "_versions", "_history", "_leases")


class Fate(Enum):
    """The outcome of one Txn."""

    LOST = auto()  # never reaches etcd: EtcdUnknown
    ANSWER_LOST = auto()  # applied, but the answer gets lost: EtcdUnknown
    LATE = auto()  # EtcdUnknown now, applied when the test calls apply_late()
    NO_SPACE = auto()  # refused for want of space: EtcdNoSpace
    NO_SPACE_APPLIED = auto()  # the one that crosses the quota: applied, and EtcdNoSpace


class _Interval(NamedTuple):
    start: bytes
    end: bytes  # b"" is the one key `start`

    def holds(self, key: bytes) -> bool:
        return self.start <= key < self.end if self.end else key == self.start


class _Lease:
    def __init__(self, ttl: int, now: float) -> None:
        self.ttl = ttl
        self.expires = now + ttl
        self.keys: set[bytes] = set()


class _File:
    """The size of the database's file, and how much of it is in use. Puts fill free parts first."""

    def __init__(self) -> None:
        self.size = 0
        self.in_use = 0

    def put(self, size: int) -> None:
        self.in_use += size
        self.size = max(self.size, self.in_use)


class Watcher:
    """A watch of an interval of keys, and what it has to send."""

    def __init__(self, interval: _Interval, from_revision: int) -> None:
        self.interval = interval
        self.from_revision = from_revision
        self.queue: asyncio.Queue[WatchMessage | Exception] = asyncio.Queue()

    def offer(self, revision: int, events: Iterable[Event]) -> None:
        """Queue those of a revision's events that the watch is about."""
        wanted = [event for event in events if self.interval.holds(event.kv.key)]
        if wanted and wanted[0].kv.mod_revision >= self.from_revision:
            self.queue.put_nowait(WatchMessage(revision, wanted))


class FakeEtcd:
    """The store: keys with their whole history, leases, watchers. Pure but for the watchers' queues."""

    def __init__(
        self,
        *,
        max_txn_ops: int = DEFAULT_MAX_TXN_OPS,
        max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES,
        quota: int = 8 << 30,
    ) -> None:
        """`quota` is --quota-backend-bytes."""
        self.quota = quota
        self.version = "3.4.23"
        #: Whether the alarm NOSPACE is active. A test may set it; `disarm` ends it.
        self.full = False
        self.file = _File()
        self.revision = 1
        self.compacted = 0
        self.now = 0.0
        self.cluster_id = 1
        self._max_txn_ops = max_txn_ops
        self._max_request_bytes = max_request_bytes
        self._sorted_keys: list[bytes] = []
        # key -> its versions with their revisions, oldest first; None where it was deleted.
        self._versions: dict[bytes, list[tuple[int, KeyValue | None]]] = {}
        self._history: list[list[Event]] = []
        self._leases: dict[int, _Lease] = {}
        self._watchers: list[Watcher] = []
        self._late: list[Txn] = []

    def backup(self) -> Mapping[str, Any]:
        """A copy of the store, as `etcdctl snapshot save` makes it."""
        return deepcopy({name: getattr(self, name) for name in _DATA})

    def restore(self, data: Mapping[str, Any]) -> None:
        """Begin with a backup, as a new cluster does; each lease has its whole time again."""
        for name, value in deepcopy(data).items():
            setattr(self, name, value)
        self._late.clear()
        self.extend_leases()

    # Requests

    def txn(self, txn: Txn) -> TxnResult:
        """Commit. Raises EtcdRefused as etcd does, in its order of checks."""
        self._check_shape(txn, self._max_txn_ops)
        check_duplicates(txn.success)
        check_duplicates(txn.failure)
        if len(wire.encode_txn(txn)) > self._max_request_bytes:
            raise EtcdRefused(RefusalKind.TOO_LARGE, "etcdserver: request is too large")
        self._check_space(_cost(txn))
        # Which branches are taken is settled everywhere, and checked, before the first change.
        path = list(self._branches(txn))
        taken = [op for holds, nested in path for op in (nested.success if holds else nested.failure)]
        for op in taken:
            if isinstance(op, Put) and op.lease and op.lease not in self._leases:
                raise _lease_not_found()
        for op in taken:
            if isinstance(op, Get):
                self._check_revision(op.revision)
        events: list[Event] = []
        result = self._apply(txn, iter([holds for holds, _ in path]), events)
        self._commit(events)
        return _at_revision(result, self.revision)

    def range(self, get: Get) -> RangeResult:
        """Read. Raises EtcdRefused for a revision that is compacted or to come."""
        if not get.key:
            raise _no_key()
        self._check_revision(get.revision)
        return self._range(get, self.revision)

    def compact(self, revision: int) -> None:
        """Forget what was before `revision`."""
        if not self.compacted < revision <= self.revision:
            raise ValueError(f"cannot compact at {revision}")
        self.compacted = revision
        self._history = [events for events in self._history if events[0].kv.mod_revision >= revision]
        if self._history and self._history[0][0].kv.mod_revision == revision and self._drops_deletes():
            self._history[0] = [event for event in self._history[0] if event.type == PUT]
            self._history = [events for events in self._history if events]
        self._forget_versions(revision)

    def _forget_versions(self, compacted: int) -> None:
        """Drop what no request can see any more, so that a long run does not fill the memory."""
        gone: list[bytes] = []
        for key, versions in self._versions.items():
            last = bisect.bisect_right(versions, compacted, key=lambda version: version[0]) - 1
            if last < 0:
                continue
            seen = last + 1 if versions[last][1] is None else last
            del versions[:seen]
            if not versions:
                gone.append(key)
        for key in gone:
            del self._versions[key]
        if gone:
            self._sorted_keys = sorted(self._versions)
        self.file.in_use = sum(_in_use(versions, compacted) for versions in self._versions.values())

    def _drops_deletes(self) -> bool:
        """Whether a watch from the compacted revision on misses its deletes (etcd issue 18089)."""
        version = parse(self.version)
        if version is None or version >= (3, 6, 0):
            return False
        return version < ((3, 5, 16) if version.minor == 5 else (3, 4, 34))

    def lease_grant(self, lease_id: int, ttl: int) -> int:
        """Make a lease."""
        self._check_space(_LEASE_OVERHEAD)
        if lease_id in self._leases:
            raise EtcdRefused(RefusalKind.LEASE_EXISTS, "etcdserver: lease already exists")
        lease = self._leases[lease_id] = _Lease(max(ttl, _LEAST_TTL), self.now)
        return lease.ttl

    def lease_revoke(self, lease_id: int) -> None:
        """End a lease, deleting its keys at one revision."""
        lease = self._leases.get(lease_id)
        if lease is None:
            raise _lease_not_found()
        events: list[Event] = []
        for key in sorted(lease.keys):
            self._delete(_Interval(key, b""), events)
        del self._leases[lease_id]
        self._commit(events)

    def lease_renew(self, lease_id: int) -> int:
        """Keep a lease alive; 0 if it is gone."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return 0
        lease.expires = self.now + lease.ttl
        return lease.ttl

    def seconds_left(self, lease_id: int) -> float:
        """Seconds until a living lease ends."""
        return self._leases[lease_id].expires - self.now

    def watch(self, start: bytes, end: bytes, from_revision: int) -> Watcher:
        """Register a watcher; what is in the history goes to its queue at once."""
        watcher = Watcher(_Interval(start, end), from_revision or self.revision + 1)
        watcher.queue.put_nowait(WatchMessage(self.revision, ()))
        if 0 < from_revision < self.compacted:
            watcher.queue.put_nowait(WatchCompacted(self.compacted))
            return watcher
        for events in self._history:
            watcher.offer(self.revision, events)
        self._watchers.append(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Forget a watcher."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def extend_leases(self) -> None:
        """Give every lease its whole time again, as a new leader does (lease/lessor.go, Promote)."""
        for lease in self._leases.values():
            lease.expires = self.now + lease.ttl

    @property
    def lease_ids(self) -> list[int]:
        """The leases there are."""
        return sorted(self._leases)

    # What a test may do to etcd

    def advance(self, seconds: float) -> None:
        """Let time pass; leases that run out are revoked, the earliest first."""
        self.now += seconds
        expired = [lease_id for lease_id, lease in self._leases.items() if lease.expires <= self.now]
        for lease_id in sorted(expired, key=lambda lease_id: self._leases[lease_id].expires):
            self.lease_revoke(lease_id)

    def defragment(self) -> None:
        """Shrink the database's file to what compaction has left."""
        self.file.size = self.file.in_use

    def disarm(self) -> None:
        """End the alarm NOSPACE. The next put raises it again if the file is still too large."""
        self.full = False

    def break_watches(self) -> None:
        """End every watch stream, as when a connection is lost."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(EtcdUnknown("the fake was told to break its watches"))
        self._watchers.clear()

    def hold(self, txn: Txn) -> None:
        """Keep a Txn for apply_late()."""
        self._late.append(txn)

    def apply_late(self) -> list[TxnResult]:
        """Apply the Txns whose fate was LATE, in order; the results of those that are not refused."""
        late, self._late = self._late, []
        results = []
        for txn in late:
            with suppress(EtcdRefused):  # such as a put under a lease that has ended meanwhile
                results.append(self.txn(txn))
        return results

    def snapshot(self) -> list[KeyValue]:
        """All keys there are now, in order."""
        found = (self._at(key, self.revision) for key in self._sorted_keys)
        return [kv for kv in found if kv is not None]

    def history_from(self, revision: int) -> list[list[Event]]:
        """The events of each revision from `revision` on."""
        return [events for events in self._history if events[0].kv.mod_revision >= revision]

    # How

    def _check_space(self, cost: int) -> None:
        """etcd's quota: whatever costs nothing passes, puts in nested Txns among it, even while it is full.

        The request that would cross the quota raises the alarm and is refused. (In etcd several that come at
        once may be applied and answered so all the same: Fate.NO_SPACE_APPLIED.)
        """
        if cost and not self.full and self.file.size + cost >= self.quota:
            self.full = True
        if cost and self.full:
            raise EtcdNoSpace("etcdserver: mvcc: database space exceeded")

    def _check_shape(self, txn: Txn, ops_left: int) -> None:
        level = max(len(txn.compares), len(txn.success), len(txn.failure))
        if level > ops_left:
            raise EtcdRefused(RefusalKind.TOO_MANY_OPS, "etcdserver: too many operations in txn request")
        if not all(compare.key for compare in txn.compares):
            raise _no_key()
        for op in (*txn.success, *txn.failure):
            if isinstance(op, Txn):
                self._check_shape(op, ops_left - level)
            elif not op.key:
                raise _no_key()

    def _check_revision(self, revision: int) -> None:
        if revision > self.revision:
            raise EtcdRefused(RefusalKind.INVALID, "etcdserver: mvcc: required revision is a future revision")
        if revision and revision < self.compacted:
            raise EtcdRefused(RefusalKind.COMPACTED, "etcdserver: mvcc: required revision has been compacted")

    def _branches(self, txn: Txn) -> Iterable[tuple[bool, Txn]]:
        """Each Txn that will be run, in order, and whether its guards hold on the present state."""
        holds = all(self._holds(compare) for compare in txn.compares)
        yield holds, txn
        for op in txn.success if holds else txn.failure:
            if isinstance(op, Txn):
                yield from self._branches(op)

    def _holds(self, compare: Compare) -> bool:
        kvs = self._select(_Interval(compare.key, compare.range_end), self.revision)
        revisions = [kv.mod_revision for kv in kvs] or [0]
        if compare.less:
            return all(revision < compare.mod_revision for revision in revisions)
        return all(revision == compare.mod_revision for revision in revisions)

    def _apply(self, txn: Txn, path: Iterable[bool], events: list[Event]) -> TxnResult:
        branches = iter(path)
        holds = next(branches)
        responses: list[RangeResult | TxnResult | None] = []
        for op in txn.success if holds else txn.failure:
            if isinstance(op, Txn):
                responses.append(self._apply(op, branches, events))
            elif isinstance(op, Get):
                responses.append(self._range(op, self.revision + bool(events)))
            elif isinstance(op, Put):
                self._put(op, events)
                responses.append(None)
            else:
                self._delete(_Interval(op.key, op.range_end), events)
                responses.append(None)
        return TxnResult(holds, 0, responses)

    def _put(self, put: Put, events: list[Event]) -> None:
        revision = self.revision + 1
        old = self._at(put.key, revision)
        if old is None:
            kv = KeyValue(put.key, put.value, revision, revision, 1, put.lease)
            if put.key not in self._versions:
                bisect.insort(self._sorted_keys, put.key)
                self._versions[put.key] = []
        else:
            kv = KeyValue(put.key, put.value, old.create_revision, revision, old.version + 1, put.lease)
            self._detach(old)
        if put.lease:
            self._leases[put.lease].keys.add(put.key)
        self._versions[put.key].append((revision, kv))
        self.file.put(_size(kv))
        events.append(Event(PUT, kv))

    def _delete(self, interval: _Interval, events: list[Event]) -> None:
        revision = self.revision + 1
        for kv in self._select(interval, revision):
            self._detach(kv)
            self._versions[kv.key].append((revision, None))
            events.append(Event(DELETE, KeyValue(kv.key, b"", 0, revision, 0, 0)))

    def _detach(self, kv: KeyValue) -> None:
        lease = self._leases.get(kv.lease)
        if lease is not None:
            lease.keys.discard(kv.key)

    def _commit(self, events: list[Event]) -> None:
        if not events:
            return
        self.revision += 1
        self._history.append(events)
        for watcher in self._watchers:
            watcher.offer(self.revision, events)

    def _range(self, get: Get, newest: int) -> RangeResult:
        kvs = self._select(_Interval(get.key, get.range_end), get.revision or newest)
        count = len(kvs)
        more = 0 < get.limit < count
        if more:
            kvs = kvs[: get.limit]
        if get.keys_only:
            kvs = [kv._replace(value=b"") for kv in kvs]
        return RangeResult(kvs, more, count, self.revision)

    def _select(self, interval: _Interval, revision: int) -> list[KeyValue]:
        if not interval.end:
            kv = self._at(interval.start, revision)
            return [] if kv is None else [kv]
        first = bisect.bisect_left(self._sorted_keys, interval.start)
        last = bisect.bisect_left(self._sorted_keys, interval.end)
        found = (self._at(key, revision) for key in self._sorted_keys[first:last])
        return [kv for kv in found if kv is not None]

    def _at(self, key: bytes, revision: int) -> KeyValue | None:
        for changed, kv in reversed(self._versions.get(key, ())):
            if changed <= revision:
                return kv
        return None


def _cost(txn: Txn) -> int:
    """etcd's costTxn (etcdserver/quota.go): the puts of the dearer branch, without those of nested Txns."""

    def branch(ops: Sequence[Op]) -> int:
        return sum(_KEY_OVERHEAD + len(op.key) + len(op.value) for op in ops if isinstance(op, Put))

    return max(branch(txn.success), branch(txn.failure))


def _in_use(versions: Sequence[tuple[int, KeyValue | None]], compacted: int) -> int:
    """Bytes of the values of a key that have not been compacted away."""
    return sum(
        _size(kv)
        for (_, kv), until in zip_longest(versions, (revision for revision, _ in versions[1:]))
        if kv is not None and (until is None or until > compacted)
    )


def _size(kv: KeyValue) -> int:
    """About what a value takes in the database."""
    return len(kv.key) + len(kv.value) + 64


def check_duplicates(ops: Sequence[Op]) -> tuple[set[bytes], list[_Interval]]:
    """etcd's checkIntervals (v3rpc/key.go): the puts and deletes of one branch, or its refusal.

    What it lets pass is as odd as in etcd: the two branches of a nested Txn may put the same key, and a
    nested delete may overlap a put of an earlier nested Txn, but not of a later one.
    """
    deletes = [_Interval(op.key, op.range_end) for op in ops if isinstance(op, Delete)]
    puts: set[bytes] = set()

    def add(key: bytes, unless: set[bytes]) -> None:
        if (key in puts and key not in unless) or any(interval.holds(key) for interval in deletes):
            raise EtcdRefused(RefusalKind.INVALID, "etcdserver: duplicate key given in txn request")
        puts.add(key)

    for op in ops:
        if isinstance(op, Txn):
            puts_then, deletes_then = check_duplicates(op.success)
            puts_else, deletes_else = check_duplicates(op.failure)
            for key in puts_then:
                add(key, set())
            for key in puts_else:
                add(key, puts_then)
            deletes += deletes_then + deletes_else
    for op in ops:
        if isinstance(op, Put):
            add(op.key, set())
    return puts, deletes


def _at_revision(result: TxnResult, revision: int) -> TxnResult:
    """Nested answers carry the revision of the whole, as EtcdClient gives them."""
    responses: list[RangeResult | TxnResult | None] = []
    for response in result.responses:
        if isinstance(response, TxnResult):
            responses.append(_at_revision(response, revision))
        elif isinstance(response, RangeResult):
            responses.append(response._replace(revision=revision))
        else:
            responses.append(None)
    return TxnResult(result.succeeded, revision, responses)


def _no_key() -> EtcdRefused:
    return EtcdRefused(RefusalKind.INVALID, "etcdserver: key is not provided")


def _lease_not_found() -> EtcdRefused:
    return EtcdRefused(RefusalKind.LEASE_NOT_FOUND, "etcdserver: requested lease not found")
