"""The records of a snapshot file of ZooKeeper, as they are written: FileSnap, DataTree and StatPersisted.

A file is the head, the nodes with parents before their children, END, and the seals of codec.seal. Reading is
the pipeline's, by columns (pipeline/formats/snapshot.py).
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from codec.jute import INT, LONG, pack_buffer, pack_string

MAGIC = 0x5A4B534E
VERSION = 2
#: The ACL that permits everything to all has no entry of its own in the head.
OPEN_ACL_ID = -1
#: Behind the last node.
END = pack_string("/")

_HEADER = struct.Struct(">iiq")
_SESSION = struct.Struct(">qi")
_FIXED = struct.Struct(">qqqqqiiiqq")
_DIGEST = struct.Struct(">qiq")
_DIGEST_VERSION = 2


class Stored(Protocol):
    """A znode's data and StatPersisted."""

    @property
    def data(self) -> bytes | None:
        """None is not the same as empty."""

    @property
    def czxid(self) -> int:
        """The zxid that created it."""

    @property
    def mzxid(self) -> int:
        """The zxid of its data."""

    @property
    def pzxid(self) -> int:
        """The zxid of the last change of its children."""

    @property
    def ctime(self) -> int:
        """When it was created."""

    @property
    def mtime(self) -> int:
        """When its data were set."""

    @property
    def version(self) -> int:
        """Of its data."""

    @property
    def created(self) -> int:
        """Children ever created, StatPersisted's cversion."""

    @property
    def aversion(self) -> int:
        """Of its ACL."""

    @property
    def owner(self) -> int:
        """StatPersisted's ephemeralOwner: a session's id, or a container's or TTL node's mark."""


def pack_head(
    sessions: Iterable[tuple[int, int]], acls: Mapping[int, Sequence[tuple[int, str, str]]]
) -> bytes:
    """The part of the file before the nodes. Sessions are ids and timeouts in milliseconds."""
    sessions = list(sessions)
    parts = [_HEADER.pack(MAGIC, VERSION, -1), INT.pack(len(sessions))]
    parts += (_SESSION.pack(*session) for session in sessions)
    parts.append(INT.pack(len(acls)))
    for number, acl in acls.items():
        parts += (LONG.pack(number), INT.pack(len(acl)))
        for perms, scheme, identity in acl:
            parts += (INT.pack(perms), _text(scheme), _text(identity))
    return b"".join(parts)


def pack_node(path: str, node: Stored, acl_id: int) -> bytes:
    """One node's record."""
    fixed = _FIXED.pack(
        acl_id,
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.created,
        node.aversion,
        node.owner,
        node.pzxid,
    )
    return pack_buffer(b"" if path == "/" else path.encode()) + pack_buffer(node.data) + fixed


def pack_digest(zxid: int, total: int) -> bytes:
    """The digest's trailer; `total` is a signed long."""
    return _DIGEST.pack(zxid, _DIGEST_VERSION, total)


def pack_last_zxid(zxid: int) -> bytes:
    """The last zxid's trailer (3.9)."""
    return LONG.pack(zxid)


def _text(text: str) -> bytes:
    return pack_buffer(text.encode("utf-8", "replace"))
