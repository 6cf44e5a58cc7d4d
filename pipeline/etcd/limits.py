"""Puts packed into Txns that etcd accepts by default: 128 operations, 1.5 MiB a request.

Pure.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from proxy.etcd.model import (
    DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_MAX_TXN_OPS,
    Compare,
    Put,
    compare_size,
    op_size,
)

# A larger Txn saves nothing per byte, and delays other requests to etcd for longer.
_ENOUGH_BYTES = 1 << 20
_TXN_BYTES = 16  # around the operations, an upper bound


class Limits(NamedTuple):
    """etcd's --max-txn-ops and --max-request-bytes."""

    max_txn_ops: int = DEFAULT_MAX_TXN_OPS
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES

    def groups(self, puts: Iterable[Put], guard: Compare) -> Iterator[list[Put]]:
        """All `puts`, in order, each list for one Txn under `guard`.

        A put that is too large for any Txn is sent alone, and etcd refuses it.
        """
        most = max(1, self.max_txn_ops)
        room = min(_ENOUGH_BYTES, self.max_request_bytes) - compare_size(guard) - _TXN_BYTES
        group: list[Put] = []
        size = 0
        for put in puts:
            cost = op_size(put)
            if group and (len(group) == most or size + cost > room):
                yield group
                group = []
                size = 0
            group.append(put)
            size += cost
        if group:
            yield group
