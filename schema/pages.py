"""Pages of a snapshot: znodes, sessions, and what else the state machine has to remember.

Columns instead of records, for speed and since columns compress better. Paths are sorted inside a page. The
pages of one snapshot may overlap, since an import writes them in parallel: readers rely on no order of pages.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from codec.jute import OPEN_ACL, Acl
from schema.budgets import NO_BUDGETS, BudgetsValue, pack_budgets, unpack_budgets
from schema.compression import unwrap, unwrap_head, wrap
from schema.entry import PASSWORD_HASH_SIZE
from schema.errors import BadValue
from schema.json_values import number, pack_json, text, unpack_json
from schema.text import Fields, pack_texts, to_bytes, to_text
from schema.znode import Stored, Znode

NODES_FORMAT = 0x4E  # "N"
SESSIONS_FORMAT = 0x53  # "S"

#: What a page has in etcd, about, unless it holds one large znode: small enough that appends between two
#: puts of pages do not wait long.
PAGE_BYTES = 96 << 10
# A znode with more than this, before compression, has a page of its own.
_LARGE = 1 << 20
# Characters of a path in a header: a client's path may have a megabyte.
_LONGEST_BOUND = 1024
# No character of a path comes after it.
_BEYOND = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page of znodes says of itself without being decompressed."""

    count: int
    first: str  # path of its first znode, or the beginning of it
    last: str  # no path of the page comes after it


_COUNT = Struct(">I")
_SIZES = Struct(">II")  # bytes of the paths, bytes of the ACLs
NUMBERS_START = _SIZES.size
_LONG_SIZE, _INT_SIZE = 8, 4
_LONGS = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "owner")
_INTS = ("version", "created", "aversion", "length", "acl")  # the last is unsigned
_NODE_SIZE = _LONG_SIZE * len(_LONGS) + _INT_SIZE * len(_INTS)
# (start, size) of each column in a page of one znode; in one of n znodes it starts n times as far.
_PLACES = {name: (_LONG_SIZE * place, _LONG_SIZE) for place, name in enumerate(_LONGS)} | {
    name: (_LONG_SIZE * len(_LONGS) + _INT_SIZE * place, _INT_SIZE) for place, name in enumerate(_INTS)
}
# What Znode takes behind data and ACL.
_ARGUMENTS = ("owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion")


def _columns(count: int) -> Struct:
    """czxid, mzxid, pzxid, ctime, mtime, owner; version, created, aversion, size of data, index of ACL."""
    return Struct(f">{len(_LONGS) * count}q{(len(_INTS) - 1) * count}i{count}I")


def encode_nodes(nodes: Sequence[tuple[str, Stored]]) -> bytes:
    """A page of (path, znode), sorted by path. Raises ValueError for what no znode can have."""
    count = len(nodes)
    if not count:
        raise ValueError("a page of no znodes")
    joined = "\0".join([path for path, _ in nodes])
    if joined.count("\0") != count - 1:
        raise ValueError("a path holds a NUL character, which ZooKeeper allows in no path")
    columns: list[tuple[Any, ...]] = list(zip(*[node.fields() for _, node in nodes], strict=True))
    datas, acls, owners, *stamps, versions, createds, aversions = columns
    numbers = (*stamps, owners, versions, createds, aversions)
    lengths = [-1 if data is None else len(data) for data in datas]
    if -1 in lengths:
        datas = tuple([data or b"" for data in datas])
    table, indexes = _index_acls(acls)
    try:
        packed = _columns(count).pack(*chain(*numbers, lengths, indexes))
    except StructError as error:
        raise ValueError(f"a znode's field does not fit: {error}") from error
    return pack_columns(count, nodes[0][0], nodes[-1][0], packed, to_bytes(joined), table, b"".join(datas))


def pack_columns(
    count: int, first: str, last: str, numbers: bytes, paths: bytes, acls: bytes, data: bytes
) -> bytes:
    """A page of columns that are packed already, for writers that have no Znode objects (the pipeline)."""
    body = b"".join((_SIZES.pack(len(paths), len(acls)), numbers, paths, acls, data))
    if len(last) > _LONGEST_BOUND:
        last = last[:_LONGEST_BOUND] + _BEYOND
    return wrap(NODES_FORMAT, body, _COUNT.pack(count) + pack_texts((first[:_LONGEST_BOUND], last)))


def _index_acls(acls: Sequence[tuple[Acl, ...]]) -> tuple[bytes, list[int]]:
    """(the packed table of distinct ACLs, each znode's index in it)."""
    # Most znodes share few tuples, and a tuple's identity is hashed faster than its content.
    tuples = {id(acl): acl for acl in acls}
    index_of: dict[tuple[Acl, ...], int] = {}
    index_of_id = {key: index_of.setdefault(acl, len(index_of)) for key, acl in tuples.items()}
    return pack_acls(index_of), [index_of_id[key] for key in map(id, acls)]


def pack_acls(acls: Collection[tuple[Acl, ...]]) -> bytes:
    """The table of a page's ACLs, to which the znodes' indexes point."""
    return b"".join((_COUNT.pack(len(acls)), *[_pack_acl(acl) for acl in acls]))


def size_of_acl(acl: Iterable[Acl]) -> int:
    """Bytes that an ACL takes in a page: characters count as bytes."""
    return sum([ENTRY_BYTES + len(scheme) + len(name) for _, scheme, name in acl])


_PERMS = Struct(">i")
#: What an entry of an ACL takes besides its texts.
ENTRY_BYTES = 3 * _INT_SIZE


def _pack_acl(acl: tuple[Acl, ...]) -> bytes:
    entries = [_PERMS.pack(entry.perms) + pack_texts((entry.scheme, entry.id)) for entry in acl]
    return _COUNT.pack(len(acl)) + b"".join(entries)


_OPEN_ALONE = pack_acls((OPEN_ACL,))

# Tables of ACLs that are cached, and the bytes of the longest: most pages of a tree have the same short one.
_MOST_TABLES = 64
_LONGEST_TABLE = 2048
_MOST_SHARED = 1024


def unpack_acls(packed: bytes) -> list[tuple[Acl, ...]]:
    """The reverse of `pack_acls`. Raises BadValue."""
    return _unpack_short(packed) if len(packed) <= _LONGEST_TABLE else _unpack_acls(packed)


def _unpack_acls(packed: bytes) -> list[tuple[Acl, ...]]:
    fields = Fields(packed, "a page's ACLs")
    table = []
    for _ in range(fields.size()):
        entries = [Acl(fields.unpack(_PERMS)[0], fields.text(), fields.text()) for _ in range(fields.size())]
        acl = tuple(entries)
        table.append(_shared_acl(acl) if len(packed) <= _LONGEST_TABLE or acl == OPEN_ACL else acl)
    fields.end()
    return table


_unpack_short = functools.lru_cache(maxsize=_MOST_TABLES)(_unpack_acls)


@functools.lru_cache(maxsize=_MOST_SHARED)
def _shared_acl(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """Equal ACLs of short tables are one tuple, and the open one is OPEN_ACL itself."""
    return OPEN_ACL if acl == OPEN_ACL else acl


def page_header(page: bytes) -> PageHeader:
    """The header of a page of znodes. Raises BadValue."""
    return _header(unwrap_head(NODES_FORMAT, page, "a page of znodes"))


def _header(head: bytes) -> PageHeader:
    fields = Fields(head, "a page's header")
    header = PageHeader(fields.size(), fields.text(), fields.text())
    fields.end()
    return header


class NodePage:
    """A page of znodes, taken apart into its columns."""

    __slots__ = (
        "_body",
        "_parts",
        "_raw",
        "count",
        "data",
        "data_bytes",
        "has_null",
        "lengths",
        "paths",
        "raw_paths",
    )

    def __init__(self, page: bytes) -> None:
        """Raises BadValue."""
        raw = self._raw = unpack_columns(page)
        self.count = raw.nodes
        self._body = raw.body
        self._parts: dict[str, tuple[bytes, list[tuple[int, bytes]]]] = {"": (bytes(_INT_SIZE), [])}
        joined = raw.body[raw.paths_start : raw.acls_start]
        self.raw_paths = joined.split(b"\0")
        if len(self.raw_paths) != raw.nodes:
            raise BadValue(f"a page of {raw.nodes} znodes has {len(self.raw_paths)} paths")
        self.paths = to_text(joined).split("\0")
        self.lengths = self.numbers("length")  # of the data; -1 is null
        self.has_null = min(self.lengths) < 0
        self.data = self._data(raw.data_start)  # null as empty
        self.data_bytes = len(raw.body) - raw.data_start  # of all of them

    def numbers(self, name: str) -> tuple[int, ...]:
        """A column."""
        start, size = _PLACES[name]
        code = "q" if size == _LONG_SIZE else "i"
        found: tuple[int, ...] = Struct(f">{self.count}{code}").unpack_from(
            self._body, NUMBERS_START + self.count * start
        )
        return found

    def rows(self, *names: str) -> bytes:
        """Some columns as rows, one behind the other: fields packed big-endian. "" is an int 0.

        It moves bytes, a stride of them at a time: to make ints of them takes four times as long. Bytes that
        are the same in all rows, as most are, come with the first row.
        """
        parts = [self._taken_apart(name) for name in names]
        rows = bytearray(self.count * b"".join([first for first, _ in parts]))
        width = len(rows) // self.count
        at = 0
        for first, others in parts:
            for place, bytes_there in others:
                rows[at + place :: width] = bytes_there
            at += len(first)
        return bytes(rows)

    def _taken_apart(self, name: str) -> tuple[bytes, list[tuple[int, bytes]]]:
        """A column's first field, and where not all fields have the same byte: the place, and the bytes."""
        if name not in self._parts:
            column = self._column(name)
            size = len(column) // self.count
            first = column[:size]
            strides = [] if column == self.count * first else [column[place::size] for place in range(size)]
            self._parts[name] = (
                first,
                [
                    (place, stride)
                    for place, stride in enumerate(strides)
                    if stride != self.count * stride[:1]
                ],
            )
        return self._parts[name]

    def _column(self, name: str) -> bytes:
        start, size = _PLACES[name]
        begin = NUMBERS_START + self.count * start
        return self._body[begin : begin + self.count * size]

    def has(self, name: str) -> bool:
        """Whether a column has anything but zeros."""
        column = self._column(name)
        return column != bytes(len(column))

    def acls(self) -> tuple[list[tuple[Acl, ...]], Sequence[int]]:
        """(the different ACLs, each znode's index among them). Raises BadValue."""
        raw = self._raw
        table = unpack_acls(raw.body[raw.acls_start : raw.data_start])
        indexes: Sequence[int] = self.numbers("acl") if self.has("acl") else bytes(self.count)
        if min(indexes) < 0 or max(indexes) >= len(table):
            raise BadValue("a page has a znode whose ACL is not in it")
        return table, indexes

    def acl_bytes(self) -> int:
        """Of the ACLs of all znodes, the open one left out, as `size_of_acl`. Raises BadValue."""
        raw = self._raw
        if raw.body[raw.acls_start : raw.data_start] == _OPEN_ALONE:
            return 0
        table, indexes = self.acls()
        sizes = [0 if acl == OPEN_ACL else size_of_acl(acl) for acl in table]
        return sum(map(sizes.__getitem__, indexes))

    def _data(self, start: int) -> list[bytes]:
        lengths: Sequence[int] = self.lengths
        if self.has_null:
            if min(lengths) < -1:
                raise BadValue(f"a page has a znode with {min(lengths)} bytes of data")
            lengths = [max(length, 0) for length in lengths]
        end = start + sum(lengths)
        if end != len(self._body):
            raise BadValue(f"a page's data end at byte {end} of {len(self._body)}")
        # A quarter of the time of so many slices.
        body = BytesIO(self._body)
        body.seek(start)
        return list(map(body.read, lengths))


def decode_nodes(page: bytes) -> list[tuple[str, Znode]]:
    """(path, znode) of each znode, in the page's order. Raises BadValue."""
    columns = NodePage(page)
    table, indexes = columns.acls()
    data = [None if length < 0 else data for length, data in zip(columns.lengths, columns.data, strict=True)]
    numbers = [columns.numbers(name) for name in _ARGUMENTS]
    return list(zip(columns.paths, map(Znode, data, [table[i] for i in indexes], *numbers), strict=True))


class Columns(NamedTuple):
    """A page taken apart into its columns: numbers from NUMBERS_START on, paths, ACLs, data up to the end."""

    nodes: int  # how many
    body: bytes
    paths_start: int
    acls_start: int
    data_start: int


def unpack_columns(page: bytes) -> Columns:
    """Where the columns of a page lie. Raises BadValue."""
    head, body = unwrap(NODES_FORMAT, page, "a page of znodes")
    n = _header(head).count
    paths_start = NUMBERS_START + n * _NODE_SIZE
    if paths_start > len(body):
        raise BadValue(f"a page of {n} znodes has only {len(body)} bytes")
    paths_size, acls_size = _SIZES.unpack_from(body)
    acls_start = paths_start + paths_size
    data_start = acls_start + acls_size
    if data_start > len(body):
        raise BadValue(f"a page's data should start at byte {data_start} of {len(body)}")
    return Columns(n, body, paths_start, acls_start, data_start)


def split_nodes(nodes: Iterable[tuple[str, Stored]], target_bytes: int = PAGE_BYTES) -> Iterator[bytes]:
    """Pages of about `target_bytes` each; `nodes` sorted by path.

    How well znodes compress is learned from the page before. A page that comes out more than twice as large
    as wanted is divided, unless it holds a single znode. That one may have any size: see `schema.pieces`.
    """
    chunk: list[tuple[str, Stored]] = []
    acls: set[int] = set()  # ids of those that the chunk has
    size = 0
    limit = 2 * target_bytes
    for item in nodes:
        path, node = item
        own = _NODE_SIZE + len(path) + node.size
        acl = node.acl
        if acl is not OPEN_ACL and id(acl) not in acls:
            own += size_of_acl(acl)
            acls.add(id(acl))
        if own > _LARGE and chunk:
            yield from _bounded(chunk, 2 * target_bytes)
            chunk, size = [], 0
            acls = {id(acl)}
        chunk.append(item)
        size += own
        if size >= limit:
            stored = 0
            for page in _bounded(chunk, 2 * target_bytes):
                stored += len(page)
                yield page
            limit = min(max(size * target_bytes // stored, target_bytes), 16 * target_bytes)
            chunk, size = [], 0
            acls.clear()
    if chunk:
        yield from _bounded(chunk, 2 * target_bytes)


def _bounded(chunk: Sequence[tuple[str, Stored]], most: int) -> Iterator[bytes]:
    page = encode_nodes(chunk)
    if len(page) <= most or len(chunk) == 1:
        yield page
        return
    middle = len(chunk) // 2
    yield from _bounded(chunk[:middle], most)
    yield from _bounded(chunk[middle:], most)


class SessionValue(NamedTuple):
    """A session as a snapshot keeps it."""

    session_id: int
    timeout_ms: int
    password_hash: bytes  # the first 16 bytes of the password's SHA-256
    incarnation: str  # of the proxy that it is attached to


_SESSION = Struct(f">qi{PASSWORD_HASH_SIZE}sI")  # the last is the index of the incarnation
_SESSIONS_A_PAGE = PAGE_BYTES // _SESSION.size


def encode_sessions(sessions: Sequence[SessionValue]) -> bytes:
    """A page of sessions."""
    indexes: dict[str, int] = {}
    rows = []
    for session_id, timeout_ms, password_hash, incarnation in sessions:
        if len(password_hash) != PASSWORD_HASH_SIZE:
            raise ValueError(f"a password hash has {len(password_hash)} bytes, not {PASSWORD_HASH_SIZE}")
        index = indexes.setdefault(incarnation, len(indexes))
        rows.append(_SESSION.pack(session_id, timeout_ms, password_hash, index))
    names = pack_texts(list(indexes))
    return wrap(SESSIONS_FORMAT, b"".join((_SIZES.pack(len(rows), len(indexes)), *rows, names)))


def decode_sessions(page: bytes) -> list[SessionValue]:
    """The sessions of a page, in its order. Raises BadValue."""
    fields = Fields(unwrap(SESSIONS_FORMAT, page, "a page of sessions")[1], "a page of sessions")
    count, incarnations = fields.unpack(_SIZES)
    rows = fields.raw(count * _SESSION.size)
    names = [fields.text() for _ in range(incarnations)]
    fields.end()
    try:
        return [
            SessionValue(session_id, timeout_ms, password_hash, names[index])
            for session_id, timeout_ms, password_hash, index in _SESSION.iter_unpack(rows)
        ]
    except IndexError:
        raise BadValue("a page has a session whose incarnation is not in it") from None


def split_sessions(sessions: Iterable[SessionValue]) -> Iterator[bytes]:
    """Pages of sessions, each no larger than PAGE_BYTES or little more."""
    chunk: list[SessionValue] = []
    for session in sessions:
        chunk.append(session)
        if len(chunk) >= _SESSIONS_A_PAGE:
            yield encode_sessions(chunk)
            chunk = []
    if chunk:
        yield encode_sessions(chunk)


class StateValue(NamedTuple):
    """What the state machine has to remember besides znodes and sessions."""

    zxid: int
    entries: int  # how many entries were applied since the tree began
    level: int
    cluster_id: int
    applied: dict[str, int]  # number of the last applied entry, by incarnation
    checkpoints: tuple[tuple[int, int], ...]  # the most recent (entries, digest)
    budgets: BudgetsValue = NO_BUDGETS
    undone: tuple[range, ...] = ()  # zxids that restores of etcd have undone, ascending
    paid_at: int = 0  # the zxid with which what was searched in vain is paid for; 0: it is already


def encode_state(state: StateValue) -> bytes:
    """JSON with a checksum, since people read it."""
    budgets = {"budgets": pack_budgets(state.budgets)} if state.budgets != NO_BUDGETS else {}
    undone = {"undone": [[zxids.start, zxids.stop] for zxids in state.undone]} if state.undone else {}
    return pack_json(
        {
            "zxid": state.zxid,
            "entries": state.entries,
            "level": state.level,
            "cluster_id": state.cluster_id,
            "applied": dict(sorted(state.applied.items())),
            "checkpoints": [[entries, f"{digest:016x}"] for entries, digest in state.checkpoints],
            **budgets,
            **undone,
            **({"paid_at": state.paid_at} if state.paid_at else {}),
        }
    )


def decode_state(value: bytes) -> StateValue:
    """Raises BadValue."""
    what = "a snapshot's state"
    members = unpack_json(value, what)
    try:
        return StateValue(
            number(members["zxid"]),
            number(members["entries"]),
            number(members["level"]),
            number(members["cluster_id"]),
            {incarnation: number(applied) for incarnation, applied in members["applied"].items()},
            tuple([(number(entries), int(text(digest), 16)) for entries, digest in members["checkpoints"]]),
            unpack_budgets(members["budgets"]) if "budgets" in members else NO_BUDGETS,
            tuple([range(number(first), number(end)) for first, end in members.get("undone", ())]),
            number(members.get("paid_at", 0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadValue(f"{what} has no proper {error}") from error
