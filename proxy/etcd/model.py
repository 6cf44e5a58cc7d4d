"""What we say to etcd and what it answers, as plain values: transactions, ranges, watch messages, errors.

Pure: no I/O, no asyncio, no protobuf. `proxy.etcd.client` puts these on the wire; the fake in the tests
executes them in memory; `proxy.log` and the pipeline build them. Nothing here knows znodes.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Union

# etcd's own defaults (its flags --max-txn-ops and --max-request-bytes).
DEFAULT_MAX_TXN_OPS = 128
DEFAULT_MAX_REQUEST_BYTES = 1536 * 1024
MOST_OPS = 120  # in one Txn of a proxy

# Upper bounds of what protobuf adds around the key, range end and value of one element: field tags, lengths
# and numbers, in the worst case. Estimates are never too small, since a request too large fails as a whole.
_COMPARE_OVERHEAD = 30
_OP_OVERHEAD = 36
_TXN_OVERHEAD = 12

PUT = 0
DELETE = 1


class Compare(NamedTuple):
    """A guard: mod_revision of `key` equals `mod_revision`, where 0 means that the key is absent.

    With `less`, mod_revision < the number instead. With `range_end`, every key in [key, range_end) must pass,
    and an empty range is taken for one absent key (etcd's applyCompare). etcd evaluates all guards, nested
    ones too, on the state before the whole Txn.
    """

    key: bytes
    mod_revision: int
    range_end: bytes = b""
    less: bool = False


class Put(NamedTuple):
    """Write `value` at `key`, attached to `lease` (0: to none, detaching it from a former one)."""

    key: bytes
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    """Delete `key`, or with `range_end` all of [key, range_end); deleting nothing is no error."""

    key: bytes
    range_end: bytes = b""


class Get(NamedTuple):
    """Read `key`, or with `range_end` all of [key, range_end) in key order.

    `revision` 0 is the newest, read linearizably; inside a Txn a Get sees the writes before it. `limit` 0 is
    no limit. With `keys_only` the values are empty.
    """

    key: bytes
    range_end: bytes = b""
    revision: int = 0
    keys_only: bool = False
    limit: int = 0


class Txn(NamedTuple):
    """Do `success` if every compare holds, else `failure`; all of it at one revision."""

    compares: Sequence[Compare]
    success: Sequence["Op"]
    failure: Sequence["Op"] = ()


Op = Union[Put, Delete, Get, Txn]  # noqa: UP007 - the recursive alias needs the form that works at run time


class KeyValue(NamedTuple):
    """One key as etcd stores it; revisions are etcd's, `lease` 0 is none."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int


class RangeResult(NamedTuple):
    """Answer to a Get: `more` if a limit cut it, `count` of all keys in the range, store `revision`."""

    kvs: list[KeyValue]
    more: bool
    count: int  # type: ignore[assignment]  # hides tuple.count, which has no use here
    revision: int


class TxnResult(NamedTuple):
    """Answer to a Txn: one response for each op of the branch taken; None for a Put or Delete."""

    succeeded: bool
    revision: int
    responses: list["RangeResult | TxnResult | None"]


class Event(NamedTuple):
    """One change of one key. etcd's protobuf events have the same fields, and stand in for this unconverted.

    Of a deleted key only `key` and `mod_revision` are set.
    """

    type: int  # PUT or DELETE
    kv: KeyValue  # after the change


class WatchMessage(NamedTuple):
    """Events of whole revisions, in order; without events it says that the watch is live.

    `revision` is the store's revision when etcd made the message, which on catching up is far ahead of the
    events' own mod_revisions: it must not be taken for "applied up to here".
    """

    revision: int
    events: Sequence[Event]


class Status(NamedTuple):
    """What one member says of itself; sizes in bytes, `leader` 0 if it knows none.

    Without a version also the sizes, the leader and the index are unknown: see EtcdClient.status.
    """

    version: str
    cluster_id: int
    member_id: int
    db_size: int
    db_size_in_use: int
    leader: int
    raft_index: int
    raft_term: int
    revision: int
    errors: list[str] | None  # alarms, and that there is no leader; None: unknown


class RefusalKind(Enum):
    """Why etcd refused a request for certain."""

    TOO_LARGE = "too large"
    TOO_MANY_OPS = "too many operations"
    LEASE_NOT_FOUND = "lease not found"
    LEASE_EXISTS = "lease exists"
    PERMISSION = "permission"
    COMPACTED = "compacted"
    INVALID = "invalid"
    CORRUPT = "corrupt"  # the data of etcd's members differ: until its alarm is disarmed, it takes no writes


class EtcdError(Exception):
    """Any failure of a request to etcd."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EtcdRefused(EtcdError):
    """Definite: nothing was applied, nor ever will be."""

    def __init__(self, kind: RefusalKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class EtcdUnknown(EtcdError):
    """The outcome is unknown: applied, not applied, or applied later (rule 2.2 of docs/architecture.md)."""


class EtcdNoToken(EtcdUnknown):
    """etcd has answered no login in time: it hashes passwords slowly, or does not answer at all."""


class EtcdNoSpace(EtcdUnknown):
    """etcd's quota is used up. The request is over, but it may have been applied all the same.

    etcd's quotaApplierV3 (server/etcdserver/apply.go) applies the request that exceeds the quota, and *then*
    answers "database space exceeded". It refuses later requests with the same message, and does not apply
    them. So the request is not in flight any more, but its outcome is open. The log settles it with a
    replacement under the same number (docs/decisions/0019).
    """


class WatchCompacted(EtcdError):
    """The revision to watch from is gone; `revision` is the oldest that can still be watched."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"watch start is compacted; oldest revision is {revision}")
        self.revision = revision


def compare_size(compare: Compare) -> int:
    """Upper bound of the bytes that a guard adds to a request."""
    return len(compare.key) + len(compare.range_end) + _COMPARE_OVERHEAD


def op_size(op: Op) -> int:
    """Upper bound of the bytes that an operation adds to a request."""
    if isinstance(op, Put):
        return len(op.key) + len(op.value) + _OP_OVERHEAD
    if isinstance(op, Txn):
        return txn_size(op)
    return len(op.key) + len(op.range_end) + _OP_OVERHEAD


def txn_size(txn: Txn) -> int:
    """Upper bound of the request's bytes, to hold against etcd's --max-request-bytes (1.5 MiB)."""
    return (
        _TXN_OVERHEAD
        + sum(map(compare_size, txn.compares))
        + sum(map(op_size, txn.success))
        + sum(map(op_size, txn.failure))
    )
