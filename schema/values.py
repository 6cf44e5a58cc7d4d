"""etcd values: the header before a znode's data, child counters, sessions, event lists, the tree's record.

Every value opens with, or names, its version; an unknown one is refused, never guessed.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from codec import jute
from codec.errors import MalformedPacket
from codec.jute import Acl, Reader, pack_acls

VERSION = 1

# Flags of a znode's header.
NULL_DATA = 1  # the data is null, not empty: ZooKeeper tells the two apart
HAS_OWNER = 2  # ephemeralOwner as ZooKeeper stores it (session, container or TTL)
HAS_CZXID = 4  # czxid differs from the key's create_revision
HAS_MZXID = 8  # mzxid differs from the key's mod_revision: the last change was not one of the data
HAS_ACL = 16  # another ACL than world:anyone, all permissions
CZXID_IS_MOD = 32  # czxid is the key's mod_revision: deleted and created again in one Txn
_KNOWN_FLAGS = NULL_DATA | HAS_OWNER | HAS_CZXID | HAS_MZXID | HAS_ACL | CZXID_IS_MOD

_HEAD = struct.Struct(">BBqqii")  # version, flags, ctime, mtime, data version, aversion
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_COUNTER = struct.Struct(">BBi")  # version, flags, children ever created
_COUNTER_PZXID = 1

OPEN_ACL: tuple[Acl, ...] = jute.OPEN_TO_ALL


class BadValue(ValueError):
    """A value that this version of the schema cannot read: another version, or cut short."""


NodeFields: TypeAlias = tuple[
    bytes | None, tuple[Acl, ...], int, int, int, int, int, int | None, int | None, bool
]


class NodeValue(NamedTuple):
    """A znode's value: the header's fields and the data. Times in ms since 1970."""

    data: bytes | None
    acl: tuple[Acl, ...]
    owner: int
    ctime: int
    mtime: int
    version: int
    aversion: int
    czxid: int | None  # None: the key's create_revision says it
    mzxid: int | None  # None: the key's mod_revision says it
    czxid_is_mod: bool


def encode_node(
    data: bytes | None,
    acl: tuple[Acl, ...],
    owner: int,
    ctime: int,
    mtime: int,
    version: int,
    aversion: int,
    czxid: int | None = None,
    mzxid: int | None = None,
    czxid_is_mod: bool = False,
) -> bytes:
    """The value of a znode's key; the arguments as in `NodeValue`."""
    flags = 0
    extra = b""
    if owner:
        flags |= HAS_OWNER
        extra = _LONG.pack(owner)
    if czxid is not None:
        flags |= HAS_CZXID
        extra += _LONG.pack(czxid)
    elif czxid_is_mod:
        flags |= CZXID_IS_MOD
    if mzxid is not None:
        flags |= HAS_MZXID
        extra += _LONG.pack(mzxid)
    if acl is not OPEN_ACL and acl != OPEN_ACL:
        flags |= HAS_ACL
        packed = pack_acls(acl)
        extra += _INT.pack(len(packed)) + packed
    if data is None:
        flags |= NULL_DATA
        data = b""
    return _HEAD.pack(VERSION, flags, ctime, mtime, version, aversion) + extra + data


_acl_cache: dict[bytes, tuple[Acl, ...]] = {}


def _decode_acl(packed: bytes) -> tuple[Acl, ...]:
    """The ACL of its jute bytes; equal ones share one tuple, since trees hold few different ACLs."""
    acl = _acl_cache.get(packed)
    if acl is None:
        if len(_acl_cache) > 100_000:
            _acl_cache.clear()
        acl = _acl_cache[packed] = Reader(packed).acls() or ()
    return acl


def decode_node(value: bytes) -> NodeValue:
    """Take a znode's value apart. Raises BadValue for an unknown version or flag, or a short value."""
    return NodeValue._make(fields_of_node(value))


def fields_of_node(value: bytes) -> NodeFields:
    """`decode_node` without names, in half the time: every change of a node comes by here."""
    try:
        head, flags, ctime, mtime, version, aversion = _HEAD.unpack_from(value)
        if head != VERSION or flags & ~_KNOWN_FLAGS:
            raise BadValue(
                f"znode header of version {head}, flags {flags:#x}: this zketcd reads version {VERSION}"
            )
        position = _HEAD.size
        if not flags:
            return value[position:], OPEN_ACL, 0, ctime, mtime, version, aversion, None, None, False
        owner = 0
        czxid = mzxid = None
        acl = OPEN_ACL
        if flags & HAS_OWNER:
            (owner,) = _LONG.unpack_from(value, position)
            position += 8
        if flags & HAS_CZXID:
            (czxid,) = _LONG.unpack_from(value, position)
            position += 8
        if flags & HAS_MZXID:
            (mzxid,) = _LONG.unpack_from(value, position)
            position += 8
        if flags & HAS_ACL:
            (length,) = _INT.unpack_from(value, position)
            position += 4
            if length < 0 or position + length > len(value):
                raise BadValue("znode value cut short in its ACL")
            acl = _decode_acl(value[position : position + length])
            position += length
    except (struct.error, MalformedPacket) as error:
        raise BadValue(f"znode value of {len(value)} bytes is cut short: {error}") from error
    data = None if flags & NULL_DATA else value[position:]
    again = bool(flags & CZXID_IS_MOD)
    return data, acl, owner, ctime, mtime, version, aversion, czxid, mzxid, again


def encode_counter(created: int, pzxid: int | None = None) -> bytes:
    """A child counter: children ever created; `pzxid` only where mod_revision does not say it."""
    if pzxid is None:
        return _COUNTER.pack(VERSION, 0, created)
    return _COUNTER.pack(VERSION, _COUNTER_PZXID, created) + _LONG.pack(pzxid)


def decode_counter(value: bytes) -> tuple[int, int | None]:
    """(children ever created, explicit pzxid or None). Raises BadValue."""
    try:
        head, flags, created = _COUNTER.unpack_from(value)
        if head != VERSION or flags & ~_COUNTER_PZXID:
            raise BadValue(
                f"child counter of version {head}, flags {flags:#x}: this zketcd reads version {VERSION}"
            )
        pzxid = _LONG.unpack_from(value, _COUNTER.size)[0] if flags & _COUNTER_PZXID else None
    except struct.error as error:
        raise BadValue(f"child counter of {len(value)} bytes is too short: {error}") from error
    return created, pzxid


class SessionValue(NamedTuple):
    """A session's record. `owner` is the incarnation of the proxy that holds its connection."""

    password_hash: str
    timeout_ms: int
    owner: str


def encode_session(session: SessionValue) -> bytes:
    """The value of a session's key, as JSON: rare, and read by people."""
    return json.dumps({"version": VERSION, **session._asdict()}).encode()


def decode_session(value: bytes) -> SessionValue:
    """Raises BadValue for an unknown version or a value that is not a session's."""
    record = _json(value, "session record")
    try:
        return SessionValue(str(record["password_hash"]), int(record["timeout_ms"]), str(record["owner"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"session record without a proper {error}") from error


class TreeRecord(NamedTuple):
    """The prefix's own record: what the whole tree needs to be read rightly."""

    complete: bool  # False while a bulk load runs: such a tree is not served
    offsets: tuple[tuple[int, int], ...]  # (first revision, offset): zxid = revision + offset from there on
    cluster_id: int


def encode_tree(record: TreeRecord) -> bytes:
    """The value of the prefix's own record, as JSON."""
    fields = {"complete": record.complete, "offsets": record.offsets, "cluster_id": record.cluster_id}
    return json.dumps({"version": VERSION, **fields}).encode()


def decode_tree(value: bytes) -> TreeRecord:
    """Raises BadValue for an unknown version or a value that is not a tree's record."""
    record = _json(value, "tree record")
    try:
        offsets = tuple((int(first), int(offset)) for first, offset in record["offsets"])
        found = TreeRecord(bool(record["complete"]), offsets, int(record["cluster_id"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"tree record without proper {error}") from error
    if not offsets:
        raise BadValue("tree record without any offset")
    return found


def zxid_of(offsets: Sequence[tuple[int, int]], revision: int) -> int:
    """The zxid that a tree record's `offsets` make of an etcd revision."""
    offset = 0
    for first, value in offsets:
        if first > revision:
            break
        offset = value
    return revision + offset


def _json(value: bytes, what: str) -> dict[str, Any]:
    try:
        record = json.loads(value)
    except ValueError as error:
        raise BadValue(f"{what} is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("version") != VERSION:
        raise BadValue(f"{what} of another version than {VERSION}: {value[:80]!r}")
    return record


class TreeEvent(NamedTuple):
    """One change that watches fire for: the event's type, the node's path and its ACL at that moment."""

    type: int
    path: str
    acl: tuple[Acl, ...]


_EVENT = struct.Struct(">BII")  # type, length of the path, length of the ACL (0: the open one)


def encode_loss(incarnation: str, paths: Iterable[str]) -> bytes:
    """What the component of a Txn puts that loses its race: whose it was, and the paths that it was for."""
    return "\n".join((incarnation, *paths)).encode()  # no path holds a line's end


def decode_loss(value: bytes) -> tuple[str, list[str]]:
    """The proxy's incarnation and the paths."""
    incarnation, *paths = value.decode(errors="replace").split("\n")
    return incarnation, paths


def encode_events(events: Iterable[TreeEvent]) -> bytes:
    """An ordered list of events, put where a Txn's net effect would hide some of them."""
    parts = [bytes((VERSION,))]
    for event in events:
        path = event.path.encode()
        acl = b"" if event.acl == OPEN_ACL else pack_acls(event.acl)
        parts += (_EVENT.pack(event.type, len(path), len(acl)), path, acl)
    return b"".join(parts)


def decode_events(value: bytes) -> Sequence[TreeEvent]:
    """Raises BadValue for an unknown version or a list cut short."""
    if value[:1] != bytes((VERSION,)):
        raise BadValue(f"event list of another version than {VERSION}: {value[:20]!r}")
    events = []
    position = 1
    try:
        while position < len(value):
            kind, path_length, acl_length = _EVENT.unpack_from(value, position)
            position += _EVENT.size
            middle = position + path_length
            end = middle + acl_length
            if end > len(value):
                raise BadValue("event list cut short")
            acl = _decode_acl(value[middle:end]) if acl_length else OPEN_ACL
            events.append(TreeEvent(kind, value[position:middle].decode(), acl))
            position = end
    except (struct.error, UnicodeDecodeError, MalformedPacket) as error:
        raise BadValue(f"event list cut short: {error}") from error
    return events
