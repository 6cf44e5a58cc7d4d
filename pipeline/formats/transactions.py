"""The content of a log's entries: TxnHeader, the transactions' records, TxnDigest; as rows of table.py."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from codec import jute
from codec.constants import OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import Reader
from pipeline.formats.errors import BadFile
from pipeline.formats.log import Entry
from pipeline.formats.text import decode
from pipeline.table import AclRow, TransactionRow
from schema.znode import CONTAINER_OWNER, MAX_TTL, ttl_owner

_HEADER = struct.Struct(">qiqqi")
_DIGEST = struct.Struct(">iq")
_INT = struct.Struct(">i")
_PART = struct.Struct(">ii")  # of a multi: type and length
_GROWTH = {
    **dict.fromkeys((OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL), 1),
    **dict.fromkeys((OpCode.DELETE, OpCode.DELETE_CONTAINER), -1),
}
_DIGEST_VERSION = 2


def rows(entry: Entry, file: str, name: str) -> Iterator[TransactionRow]:
    """One entry's transaction, with a row for each part of a multi. `name`: the name of the file in the rows.

    Raises BadFile for an unknown type, or a record that is cut short.
    """
    reader = Reader(entry.body)
    parts: list[tuple[int, int, _Body]] = []
    try:
        session, cxid, zxid, time, kind = _HEADER.unpack_from(entry.body)
        reader.position = _HEADER.size
        if kind == OpCode.MULTI:
            for part, (part_kind, raw) in enumerate(_parts(reader)):
                parts.append((part, part_kind, _BODIES[part_kind](Reader(raw), session)))
            parts = parts or [(-1, kind, _NOTHING)]
        elif kind == OpCode.CHECK:
            raise KeyError(kind)
        else:
            parts.append((-1, kind, _BODIES[kind](reader, session)))
        digest = _digest(reader)
    except _BROKEN as error:
        raise _broken(entry, file, error) from error
    last = len(parts) - 1
    for at, (part, part_kind, said) in enumerate(parts):
        own = digest if at == last else None
        yield TransactionRow(zxid, part, session, cxid, time, part_kind, *said, own, name, entry.offset)


def only_paths(entry: Entry, file: str) -> list[tuple[int, str]] | None:
    """(type, path) of each part of a transaction; None if a part does not begin with a path.

    Raises BadFile.
    """
    body = entry.body
    kind = _HEADER.unpack_from(body)[4]
    try:
        if kind in _PATH_FIRST:
            end = _HEADER.size + _INT.size + _INT.unpack_from(body, _HEADER.size)[0]
            return [(kind, _absolute(body[_HEADER.size + _INT.size : end]))]
        if kind != OpCode.MULTI:
            return None
        found = []
        for part_kind, raw in _parts(Reader(body, _HEADER.size)):
            if part_kind not in _PATH_FIRST:
                return None
            end = _INT.size + _INT.unpack_from(raw)[0]
            found.append((part_kind, _absolute(raw[_INT.size : end])))
    except _BROKEN as error:
        raise _broken(entry, file, error) from error
    return found


def _parts(reader: Reader) -> Iterator[tuple[int, bytes]]:
    """Type and record of each part of a multi. Raises KeyError for a type that no multi has."""
    for _ in range(reader.count() or 0):
        kind = reader.int()
        if kind not in _IN_MULTI:
            raise KeyError(kind)
        yield kind, reader.buffer() or b""


_BROKEN = (MalformedPacket, NullString, struct.error, UnicodeDecodeError, KeyError)


def _broken(entry: Entry, file: str, error: Exception) -> BadFile:
    what = f"the transaction in this entry is broken: {error}"
    if isinstance(error, KeyError):
        what = f"a transaction of the unknown type {error}"
    return BadFile(file, entry.offset, what)


def kind_of(entry: Entry, file: str) -> int:
    """A transaction's type. Raises BadFile for an unknown one."""
    try:
        kind: int = _HEADER.unpack_from(entry.body)[4]
    except struct.error as error:
        raise BadFile(file, entry.offset, "an entry is shorter than a transaction's header") from error
    if kind != OpCode.MULTI and (kind not in _BODIES or kind == OpCode.CHECK):
        raise BadFile(file, entry.offset, f"a transaction of the unknown type {kind}")
    return kind


def growth(entry: Entry) -> int:
    """By how many znodes the tree grows, without the ephemerals of sessions that end."""
    kind = _HEADER.unpack_from(entry.body)[4]
    if kind != OpCode.MULTI:
        return _GROWTH.get(kind, 0)
    grown = 0
    at = _HEADER.size + _INT.size
    try:
        for _ in range(_INT.unpack_from(entry.body, _HEADER.size)[0]):
            part, length = _PART.unpack_from(entry.body, at)
            if part == OpCode.ERROR:
                return 0  # the multi was refused
            grown += _GROWTH.get(part, 0)
            at += _PART.size + max(0, length)
    except struct.error:
        return 0  # `rows` says what is wrong
    return grown


def digest_of(entry: Entry, file: str) -> int | None:
    """The tree's digest after a transaction; None if the log does not have it. Raises BadFile."""
    return list(rows(entry, file, ""))[-1].digest


# A transaction's content: the fields of TransactionRow from `path` to `paths`.
_Body = tuple[
    str | None,
    bytes | None,
    tuple[AclRow, ...] | None,
    int | None,
    int | None,
    int | None,
    int | None,
    int | None,
    tuple[str, ...] | None,
]
_NOTHING: _Body = (None, None, None, None, None, None, None, None, None)


def _path(reader: Reader) -> str:
    raw = reader.buffer()
    if raw is None:
        raise MalformedPacket("a path is null")
    return _absolute(raw)


def _absolute(raw: bytes) -> str:
    """A path. Of another one ZooKeeper would find no parent, and end."""
    path = raw.decode()
    if not path.startswith("/"):
        raise MalformedPacket(f"the path {path!r} does not begin with /")
    return path


_OPEN = (AclRow(*jute.OPEN_ACL[0]),)  # what most nodes have


def _acl(reader: Reader) -> tuple[AclRow, ...] | None:
    if reader.data.startswith(jute.OPEN_ACL_PACKED, reader.position):
        reader.position += jute.OPEN_ACL_SIZE
        return _OPEN
    count = reader.count()
    if count is None:
        return None
    return tuple(
        AclRow(reader.int(), decode(reader.buffer() or b""), decode(reader.buffer() or b""))
        for _ in range(count)
    )


def _created(
    path: str, data: bytes | None, acl: tuple[AclRow, ...] | None, owner: int, counter: int | None
) -> _Body:
    """The content of any kind of create; a counter of -1 means that it is missing."""
    return (path, data, acl, None, None if counter == -1 else counter, owner, None, None, None)


def _create(reader: Reader, session: int) -> _Body:
    path, data, acl = _path(reader), reader.buffer(), _acl(reader)
    owner = session if reader.boolean() else 0
    # CreateTxnV0, up to 3.3, ends here.
    counter = reader.int() if reader.remaining >= 4 else None
    return _created(path, data, acl, owner, counter)


def _create_container(reader: Reader, session: int) -> _Body:
    path, data, acl, counter = _path(reader), reader.buffer(), _acl(reader), reader.int()
    return _created(path, data, acl, CONTAINER_OWNER, counter)


def _create_ttl(reader: Reader, session: int) -> _Body:
    path, data, acl, counter = _path(reader), reader.buffer(), _acl(reader), reader.int()
    return _created(path, data, acl, ttl_owner(reader.long() & MAX_TTL), counter)


def _delete(reader: Reader, session: int) -> _Body:
    return (_path(reader), None, None, None, None, None, None, None, None)


def _set_data(reader: Reader, session: int) -> _Body:
    return (_path(reader), reader.buffer(), None, reader.int(), None, None, None, None, None)


def _set_acl(reader: Reader, session: int) -> _Body:
    return (_path(reader), None, _acl(reader), reader.int(), None, None, None, None, None)


def _check(reader: Reader, session: int) -> _Body:
    return (_path(reader), None, None, reader.int(), None, None, None, None, None)


def _create_session(reader: Reader, session: int) -> _Body:
    return (None, None, None, None, None, None, reader.int(), None, None)


def _close_session(reader: Reader, session: int) -> _Body:
    rest = reader.remaining
    # Before 3.6, or with closeSessionTxn.enabled=false, the log does not say what a session deletes. Twelve
    # bytes that begin with 2 are a digest: two paths need sixteen.
    if not rest or (
        rest == _DIGEST.size and int.from_bytes(reader.data[-rest:][:4], "big") == _DIGEST_VERSION
    ):
        return _NOTHING
    paths = tuple(_path(reader) for _ in range(reader.count() or 0))
    return (None, None, None, None, None, None, None, None, paths)


def _error(reader: Reader, session: int) -> _Body:
    return (None, None, None, None, None, None, None, reader.int(), None)


_BODIES: Mapping[int, Callable[[Reader, int], _Body]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE2: _create,
    OpCode.CREATE_CONTAINER: _create_container,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.DELETE: _delete,
    OpCode.DELETE_CONTAINER: _delete,
    OpCode.SET_DATA: _set_data,
    OpCode.RECONFIG: _set_data,
    OpCode.SET_ACL: _set_acl,
    OpCode.CHECK: _check,
    OpCode.CREATE_SESSION: _create_session,
    OpCode.CLOSE_SESSION: _close_session,
    OpCode.ERROR: _error,
}
# The types whose record begins with the one path that it names.
_PATH_FIRST = frozenset(_BODIES) - {OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION, OpCode.ERROR}
# The types that DataTree.processTxn accepts in a multi.
_IN_MULTI = _PATH_FIRST - {OpCode.RECONFIG, OpCode.SET_ACL} | {OpCode.ERROR}


def _digest(reader: Reader) -> int | None:
    """The TxnDigest after a record: absent if digests are off, before 3.6, and after errors."""
    if reader.remaining < _DIGEST.size:
        return None
    version, total = _DIGEST.unpack_from(reader.data, reader.position)
    return int(total) if version == _DIGEST_VERSION else None


# Writing: the log that `pipeline.follow.files` makes.


def pack(parts: Sequence[TransactionRow]) -> bytes:
    """The entry's body of one transaction, its rows in order; a multi where `part` is not -1.

    An error's record is written in its short form; a TTL as the 40 bits of the owner.
    """
    first = parts[0]
    multi = first.part >= 0 or first.type == OpCode.MULTI
    kind = OpCode.MULTI if multi else first.type
    head = _HEADER.pack(first.session_id, first.cxid, first.zxid, first.time, kind)
    if multi:
        subs = [part for part in parts if part.part >= 0]
        body = jute.INT.pack(len(subs)) + b"".join(
            jute.INT.pack(part.type) + jute.pack_buffer(_pack_body(part)) for part in subs
        )
    else:
        body = _pack_body(first)
    digest = parts[-1].digest
    return head + body + (b"" if digest is None else _DIGEST.pack(_DIGEST_VERSION, digest))


def _pack_body(row: TransactionRow) -> bytes:
    kind = row.type
    if kind == OpCode.CREATE_SESSION:
        return jute.INT.pack(row.timeout_ms or 0)
    if kind == OpCode.CLOSE_SESSION:
        return b"" if row.paths is None else jute.pack_strings(row.paths)
    if kind == OpCode.ERROR:
        return jute.INT.pack(row.error or 0)
    path = jute.pack_string(row.path)
    version = jute.INT.pack(row.version or 0)
    acl = jute.NULL if row.acl is None else jute.pack_acls([jute.Acl(*entry) for entry in row.acl])
    counter = jute.INT.pack(-1 if row.parent_cversion is None else row.parent_cversion)
    start = path + jute.pack_buffer(row.data)
    if kind in (OpCode.CREATE, OpCode.CREATE2):
        return start + acl + bytes((row.owner == row.session_id and row.owner != 0,)) + counter
    if kind == OpCode.CREATE_CONTAINER:
        return start + acl + counter
    if kind == OpCode.CREATE_TTL:
        return start + acl + counter + jute.LONG.pack((row.owner or 0) & MAX_TTL)
    if kind in (OpCode.SET_DATA, OpCode.RECONFIG):
        return start + version
    if kind == OpCode.SET_ACL:
        return path + acl + version
    if kind == OpCode.CHECK:
        return path + version
    if kind in (OpCode.DELETE, OpCode.DELETE_CONTAINER):
        return path
    raise AssertionError(f"no body of transaction type {kind}")
