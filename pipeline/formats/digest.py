"""The tree's digest, version 2: the sum that ZooKeeper's DigestCalculator computes.

Each node's crc32 over its path, its data and 60 bytes of its stat; the sum modulo 2^64, so that parts add up.
"""

import struct
import zlib

VERSION = 2
_STAT = struct.Struct(">qqqqqiiiq")
_PROC = b"/zookeeper/"


def of_node(path: bytes, data: bytes | None, *stat: int) -> int:
    """One node's part of the sum. `path` is b"" for the root; nodes below /zookeeper do not count.

    `stat`: czxid, mzxid, pzxid, ctime, mtime, version, created, aversion, owner. A server whose locale is not
    UTF-8 sums other bytes: there each character beyond ASCII is "?".
    """
    return of_packed(path, data, _STAT.pack(*stat))


def of_packed(path: bytes, data: bytes | None, stat: bytes) -> int:
    """As `of_node`; `stat` is the 60 bytes, big-endian, in the order of its arguments."""
    if path.startswith(_PROC):
        return 0
    crc = zlib.crc32(path)
    if data is not None:
        crc = zlib.crc32(data, crc)
    return zlib.crc32(stat, crc)
