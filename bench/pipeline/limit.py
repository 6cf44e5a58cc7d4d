"""`python -m bench.pipeline.limit ETCD PREFIX FIRST LAST`: the pages of some tables, in bulk.

All pages are made and packed beforehand: what is timed is the client and etcd, nothing of Spark, no file.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from bench.pipeline import tree
from pipeline.batches import batch_of
from pipeline.etcd import columns
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from proxy.etcd.model import Compare, Put, Txn

_IN_FLIGHT = 4
_TIMEOUT = 60.0


async def _send(connection: Connection, txns: list[Txn]) -> float:
    """Send all; the seconds that it took."""
    waiting = iter(txns)
    async with connection.client() as etcd:
        await etcd.status(_TIMEOUT)  # connects
        started = time.monotonic()

        async def lane() -> None:
            for txn in waiting:
                if not (await etcd.txn(txn, _TIMEOUT)).succeeded:
                    raise RuntimeError("a compare failed that nobody could have broken")

        async with asyncio.TaskGroup() as group:
            for _ in range(_IN_FLIGHT):
                group.create_task(lane())
        return time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the pages of tables FIRST to LAST-1, once a line comes in; print znodes and seconds."""
    etcd, prefix, first, last = sys.argv[1:] if arguments is None else arguments
    connection = Connection(etcd, prefix)
    keys = connection.keys
    guard = Compare(keys.tree, 0)
    batches = (batch_of(list(tree.table(number))) for number in range(int(first), int(last)))
    pages = columns.pages_of(batches, Limits().max_request_bytes)
    puts = [Put(keys.node_page(first, index), page) for index, (page, _) in enumerate(pages)]
    txns = [Txn((guard,), group) for group in Limits().groups(puts, guard)]
    print("ready", flush=True)
    sys.stdin.readline()
    znodes = (int(last) - int(first)) * tree.TABLE_NODES
    print(znodes, asyncio.run(_send(connection, txns)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
