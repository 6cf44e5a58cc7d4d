"""Measures entries and pages: `python -m tests.schema.measure`. schema/README.md has the results.

CPU time, the best of several rounds, with the garbage collector off, as it is while a server loads.
"""

import gc
import random
import time
from collections.abc import Callable
from functools import partial

from codec.jute import OPEN_ACL, OPEN_ACL_PACKED, pack_buffer
from schema.entry import EntryWriter, Identity, decode_entry
from schema.pages import decode_nodes, split_nodes
from schema.znode import Znode

_ZNODES = 1_000_000
_noise = random.Random(1)


def _hex(size: int) -> bytes:
    return _noise.randbytes(size // 2).hex().encode()


def _znodes(count: int) -> list[tuple[str, Znode]]:
    """Paths and data as ClickHouse's replicated tables have them."""
    nodes = []
    for number in range(count):
        path = f"/clickhouse/tables/{number // 2000:04d}/parts/{number * 3:07d}_{number * 3 + 2:07d}_0"
        data = (b"format version: 1\nchecksum: %b\nblock: %b" % (_hex(32), _hex(16))).ljust(100, b".")
        zxid = _noise.randrange(10**9)
        at = 1_700_000_000_000 + zxid // 100
        nodes.append((path, Znode(data, OPEN_ACL, 0, zxid, zxid, zxid, at, at, 0, 0, 0)))
    return nodes


def _create(number: int) -> bytes:
    path = b"/bench/worker-%02d/node-%010d" % (number % 64, number)
    return pack_buffer(path) + pack_buffer(_hex(100)) + OPEN_ACL_PACKED + bytes(4)


def _best(work: Callable[[], object], times: int = 1, rounds: int = 5) -> float:
    """Seconds of CPU for one call."""
    best = 1e9
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - began)
    return best / times


def _entry(bodies: list[bytes]) -> EntryWriter:
    identities = [(Identity("ip", f"10.0.0.{number}"),) for number in range(3)]
    writer = EntryWriter()
    for number, body in enumerate(bodies):
        writer.add(0, 0x10000ABCD0000 + number % 64, 1, identities[number % 3], body)
    return writer


def _measure_entries() -> None:
    print(
        "| requests in the entry | bytes | add | finish | decode | (us a request) |\n|--:|--:|--:|--:|--:|--|"
    )
    for count in (1, 8, 64, 300, 1000):
        bodies = [_create(number) for number in range(count)]
        writer = _entry(bodies)
        value = writer.finish(1, 1, 32, 5)
        work = (partial(_entry, bodies), partial(writer.finish, 1, 1, 32, 5), partial(decode_entry, value))
        cells = " | ".join(f"{_best(each, 10_000 // count) / count * 1e6:.2f}" for each in work)
        print(f"| {count} | {len(value)} | {cells} | |")


def main() -> None:
    """Print the tables of schema/README.md."""
    gc.disable()
    _measure_entries()
    nodes = _znodes(_ZNODES)
    written = list(split_nodes(nodes))

    size = sum(map(len, written))
    print(f"\n{_ZNODES} znodes: paths of {sum(len(path) for path, _ in nodes) / _ZNODES:.0f} bytes", end=", ")
    print(f"{len(written)} pages of {size / len(written) / 1024:.0f} KiB, {size / _ZNODES:.0f} bytes a znode")
    print(f"encode: {_best(lambda: list(split_nodes(nodes)), 1, 3):.2f} s")
    nodes.clear()
    print(f"decode: {_best(lambda: [decode_nodes(page) for page in written], 1, 3):.2f} s")


if __name__ == "__main__":
    main()
