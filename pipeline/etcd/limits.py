"""Puts packed into guarded Txns that a stock etcd takes: 128 operations a level, 1.5 MiB a request.

Pure. One Txn holds several nested ones: etcd counts operations along a chain, not in total, and a bigger Txn
costs it less a key (docs/decisions, the load protocol).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from proxy.etcd.model import (
    DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_MAX_TXN_OPS,
    Compare,
    Op,
    Put,
    Txn,
    compare_size,
    op_size,
)

_TXN_BYTES = 16  # of a nested Txn around its puts, an upper bound
_MOST_PUTS = 1024  # in one Txn: beyond that etcd gains little and its latency grows
_ENOUGH_BYTES = 512 * 1024  # likewise


class Limits(NamedTuple):
    """etcd's --max-txn-ops and --max-request-bytes."""

    max_txn_ops: int = DEFAULT_MAX_TXN_OPS
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES


def pack(puts: Iterable[Put], guard: Compare, limits: Limits) -> Iterator[Txn]:
    """All `puts`, in order, in Txns under `guard`. A put that fits nowhere goes alone, for etcd to refuse."""
    inner_most = max(1, limits.max_txn_ops // 2)
    outer_most = max(1, limits.max_txn_ops - inner_most)
    most = min(_MOST_PUTS, inner_most * outer_most)
    room = min(_ENOUGH_BYTES, limits.max_request_bytes) - compare_size(guard) - outer_most * _TXN_BYTES
    batch: list[Put] = []
    size = 0
    for put in puts:
        cost = op_size(put)
        if batch and (len(batch) == most or size + cost > room):
            yield _txn(batch, guard, inner_most)
            batch = []
            size = 0
        batch.append(put)
        size += cost
    if batch:
        yield _txn(batch, guard, inner_most)


def _txn(puts: list[Put], guard: Compare, inner_most: int) -> Txn:
    if len(puts) <= inner_most:
        return Txn((guard,), puts)
    nested: list[Op] = [
        Txn((), puts[start : start + inner_most]) for start in range(0, len(puts), inner_most)
    ]
    return Txn((guard,), nested)
