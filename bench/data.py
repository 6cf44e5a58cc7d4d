"""Data of znodes, different for each request. Pure.

zketcd compresses what it puts into etcd, ZooKeeper does not: the same hundred bytes again and again would
compress forty times, as no user's data do. These are hexadecimal digits, like the hashes and checksums that
ClickHouse writes, of which zstd and lz4 leave half or more.
"""

import random

SIZE = 100
_SLOTS = 20_011  # more than the data of two entries of the log; a prime
_POOL = random.Random(1).randbytes(_SLOTS * SIZE // 2 + SIZE).hex().encode()
_STRIDE = 157  # slots between two streams


def data(number: int) -> bytes:
    """100 bytes; numbers less than 20,000 apart have different ones."""
    at = number % _SLOTS * SIZE
    return _POOL[at : at + SIZE]


def first_of(stream: int) -> int:
    """The number from which a stream takes its data: streams that are in step have different ones."""
    return stream * _STRIDE
