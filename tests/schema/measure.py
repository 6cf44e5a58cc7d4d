"""Measures entries and pages: `python -m tests.schema.measure`. schema/README.md has the results.

CPU time, the best of several rounds, with the garbage collector off, as it is while a server loads.
"""

import gc
import random
import struct
import time
from collections.abc import Callable
from functools import partial

import cramjam

from codec.jute import OPEN_ACLS, pack_buffer
from schema import entry, pages
from schema.compression import unseal
from schema.entry import EntryWriter, Identity, decode_entry
from schema.pages import decode_nodes, split_nodes
from schema.znode import OPEN_ACL, Znode

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
    return pack_buffer(path) + pack_buffer(_hex(100)) + OPEN_ACLS + bytes(4)


def _multi(number: int) -> bytes:
    """What a ClickHouse insert commits: a log entry, a block, a check and a part."""

    def part(opcode: int, path: bytes, data: bytes, flags: int = 0) -> bytes:
        head = struct.pack(">i?i", opcode, False, -1)
        if opcode == 13:
            return head + pack_buffer(path) + struct.pack(">i", -1)
        return head + pack_buffer(path) + pack_buffer(data) + OPEN_ACLS + struct.pack(">i", flags)

    table = b"/clickhouse/tables/01/events_%02d" % (number % 8)
    name = b"202611_%d_%d_0" % (number, number)
    block = _hex(32)
    text = b"format version: 4\ncreate_time: 2026-11-22 03:00:00\nsource replica: r1\nblock_id: %b\nget\n%b\n"
    return (
        part(1, table + b"/log/log-", text % (block, name), 2)
        + part(1, table + b"/blocks/202611_" + block, name)
        + part(13, table + b"/block_numbers/202611/block-%010d" % number, b"")
        + part(1, table + b"/replicas/r1/parts/" + name, b"part header %b %b" % (_hex(32), _hex(32)))
        + struct.pack(">i?i", -1, True, -1)
    )


def _best(work: Callable[[], object], times: int = 1, rounds: int = 5) -> float:
    """Seconds of CPU for one call."""
    best = 1e9
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - began)
    return best / times


def _entry(bodies: list[bytes], opcode: int) -> EntryWriter:
    identities = [(Identity("ip", f"10.0.0.{number}"),) for number in range(3)]
    writer = EntryWriter()
    add = writer.add
    for number, body in enumerate(bodies):
        add(0, 0x10000ABCD0000 + number % 64, opcode, identities[number % 3], body)
    return writer


def _measure_entries() -> None:
    print(
        "| requests in the entry | bytes | add | finish | decode | (us a request) |\n|--:|--:|--:|--:|--:|--|"
    )
    for count in (1, 8, 64, 300, 1000):
        bodies = [_create(number) for number in range(count)]
        writer = _entry(bodies, 1)
        value = writer.finish(1, 1, 32, 5)
        times = 10_000 // count
        add = _best(partial(_entry, bodies, 1), times)
        finish = _best(partial(writer.finish, 1, 1, 32, 5), times)
        decode = _best(partial(decode_entry, value), times)
        cells = " | ".join(f"{seconds / count * 1e6:.2f}" for seconds in (add, finish, decode))
        print(f"| {count} | {len(value)} | {cells} | |")


def _zstd(body: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(body, 1))


def _unzstd(stored: bytes, size: int) -> None:
    cramjam.zstd.decompress_into(stored, bytearray(size))


def _lz4(body: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(body, store_size=False))


def _unlz4(stored: bytes, size: int) -> None:
    cramjam.lz4.decompress_block_into(stored, bytearray(size), output_len=size)


def _measure_compression(page: bytes) -> None:
    print("\n| body | bytes | zstd 1: stored, compress, decompress | lz4: the same |\n|---|--:|--:|--:|")
    bodies = {"a page of 2,600 znodes": page}
    for make, opcode, name in ((_multi, 14, "multis"), (_create, 1, "creates")):
        for count in (8, 32, 200, 1000):
            value = _entry([make(number) for number in range(count)], opcode).finish(1, 1, 32, 5)
            bodies[f"an entry of {count} {name}"] = unseal(entry.FORMAT, value, "it")[1]
    for name, body in bodies.items():
        size = len(body)
        times = max(3, 3_000_000 // size)
        cells = []
        for compress, decompress in ((_zstd, _unzstd), (_lz4, _unlz4)):
            stored = compress(body)
            one = _best(partial(compress, body), times) * 1e6
            other = _best(partial(decompress, stored, size), times) * 1e6
            cells.append(f"{len(stored) / size:.0%}, {one:.0f} us, {other:.0f} us")
        print(f"| {name} | {size} | {' | '.join(cells)} |")


def main() -> None:
    """Print the tables of schema/README.md."""
    gc.disable()
    _measure_entries()
    nodes = _znodes(_ZNODES)
    written = list(split_nodes(nodes))
    _measure_compression(unseal(pages.NODES_FORMAT, written[2], "it")[1])
    size = sum(map(len, written))
    print(f"\n{_ZNODES} znodes: paths of {sum(len(path) for path, _ in nodes) / _ZNODES:.0f} bytes", end=", ")
    print(f"{len(written)} pages of {size / len(written) / 1024:.0f} KiB, {size / _ZNODES:.0f} bytes a znode")
    print(f"encode: {_best(lambda: list(split_nodes(nodes)), 1, 3):.2f} s")
    nodes.clear()
    print(f"decode: {_best(lambda: [decode_nodes(page) for page in written], 1, 3):.2f} s")


if __name__ == "__main__":
    main()
