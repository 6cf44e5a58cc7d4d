"""`python -m bench.pipeline.limit ETCD PREFIX FIRST LAST`: puts of some tables, in bulk.

All puts are made and packed beforehand: what is timed is the client and etcd, nothing of Spark, no file.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from bench.pipeline import tree
from pipeline.etcd.limits import Limits, pack
from pipeline.etcd.options import Connection
from pipeline.etcd.records import puts_of
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
                    raise RuntimeError("a guard failed that nobody could have broken")

        async with asyncio.TaskGroup() as group:
            for _ in range(_IN_FLIGHT):
                group.create_task(lane())
        return time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the puts of tables FIRST to LAST-1, once a line comes in; tell keys and seconds."""
    etcd, prefix, first, last = sys.argv[1:] if arguments is None else arguments
    connection = Connection(etcd, prefix)
    keys = connection.keys
    puts: list[Put] = [
        put
        for number in range(int(first), int(last))
        for row in tree.table(number)
        for put in puts_of(keys, row)
    ]
    txns = list(pack(puts, Compare(keys.tree, 0), Limits()))
    print("ready", flush=True)
    sys.stdin.readline()
    print(len(puts), asyncio.run(_send(connection, txns)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
