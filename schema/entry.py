"""An entry of the log: requests of one proxy's clients, and what the proxy itself has to say, in order.

Columns instead of records: one struct call for all session ids of an entry takes a quarter of the time that
one call a request takes. README.md has the layout and the figures.
"""

import enum
import functools
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, Protocol, TypeAlias

from codec.named import new_tuple
from schema.compression import ENVELOPE_SIZE, unwrap, wrap
from schema.errors import BadValue
from schema.text import Fields, pack_texts

FORMAT = 0x45  # "E"
PASSWORD_HASH_SIZE = 16


class Kind(enum.IntEnum):
    """What a request of an entry is."""

    CLIENT = 0  # a client's request
    OPEN = 1  # a session begins
    ATTACH = 2  # a session comes to the entry's incarnation
    CLOSE = 3  # a session ends without its client's request
    CARRY_OVER = 4  # the entry's incarnation takes over the sessions of one that is over
    NODE_DUE = 5  # a container or TTL node is due
    EPOCH = 6  # etcd was restored: zxids continue above all that clients may have seen
    LEVEL = 7  # the semantics' level is raised
    FORGET = 8  # an incarnation that is over is dropped from the state
    FOLLOWED = 9  # what the source has changed that the tree follows (schema.followed)
    BUDGET = 10  # a budget is set or removed (schema.budgets)


class Rules(enum.IntFlag):
    """Settings of the sending proxy that change what its requests do."""

    EXTENDED_TYPES = 1  # TTL nodes are allowed
    ENFORCE_QUOTA = 2  # hard quotas refuse requests
    KEEPER = 4  # ClickHouse Keeper's extensions: /keeper is reserved
    X509 = 8  # the sender offers the scheme x509
    SASL = 16  # the sender offers the scheme sasl


class Identity(NamedTuple):
    """An authenticated (scheme, id) of a connection."""

    scheme: str
    id: str


#: All identities of a connection.
Identities: TypeAlias = tuple[Identity, ...]


class Request(NamedTuple):
    """One request of an entry."""

    kind: int
    session_id: int
    opcode: int
    identities: Identities
    body: bytes  # README.md has the form of each kind


class Written(NamedTuple):
    """An entry as it lies in the log, or in an archive of it."""

    position: int  # its key's mod_revision
    incarnation: str  # of the proxy that has appended it
    number: int  # among those of the incarnation
    value: bytes


class RequestFields(Protocol):
    """The fields of a request: of a `Request`, or of a proxy's own object that waits for the outcome."""

    @property
    def kind(self) -> int:
        """As in `Request`."""

    @property
    def session_id(self) -> int:
        """As in `Request`."""

    @property
    def opcode(self) -> int:
        """As in `Request`."""

    @property
    def identities(self) -> Identities:
        """As in `Request`."""

    @property
    def body(self) -> bytes:
        """As in `Request`."""


class Entry(NamedTuple):
    """A decoded entry."""

    clock: int  # of the sender, milliseconds since 1970: the times of what the requests do
    rules: int  # Rules
    checkpoint: int  # the sender's state after this many entries has `digest`; 0: none given
    digest: int  # unsigned, 64 bits
    requests: list[Request]


_HEAD = Struct(">qIQQII")  # clock, rules, checkpoint, digest, requests, bytes of the identity lists
_LIST = Struct(">I")
_LIST_SIZE = _LIST.size
_ROW_SIZE = 8 + 4 + 4 + 4 + 1
_FIXED_SIZE = ENVELOPE_SIZE + _HEAD.size
_KNOWN_KINDS = bytes(Kind)
_KNOWN_RULES = int(functools.reduce(lambda one, other: one | other, Rules))
_UNKNOWN_RULES = ~_KNOWN_RULES


@functools.lru_cache(maxsize=4096)
def _columns(count: int) -> Struct:
    """Of `count` requests: session ids, opcodes, indexes of identity lists, sizes of bodies, kinds."""
    return Struct(f">{count}q{count}i{count}I{count}I{count}B")


class EntryWriter:
    """Collects the requests of one entry."""

    __slots__ = ("_indexes", "_last", "_last_index", "_rows", "size")

    def __init__(self) -> None:
        #: An upper bound of the finished value's size.
        self.size = _FIXED_SIZE
        self._rows: list[tuple[int, int, int, int, bytes]] = []
        self._indexes: dict[Identities, int] = {}
        self._last: Identities | None = None
        self._last_index = 0

    def add(self, kind: int, session_id: int, opcode: int, identities: Identities, body: bytes) -> None:
        """Append a request; the arguments as in `Request`."""
        if identities is not self._last:
            self._choose(identities)
        self._rows.append((session_id, opcode, self._last_index, kind, body))
        self.size += _ROW_SIZE + len(body)

    def _choose(self, identities: Identities) -> None:
        index = self._indexes.get(identities)
        if index is None:
            index = self._indexes[identities] = len(self._indexes)
            self.size += _LIST_SIZE + len(_pack_identities(identities))
        self._last = identities
        self._last_index = index

    def finish(self, clock: int, rules: int, checkpoint: int, digest: int) -> bytes:
        """The entry's value; the arguments as in `Entry`."""
        rows = self._rows
        lists = b"".join(
            [_LIST.pack(len(packed)) + packed for packed in map(_pack_identities, self._indexes)]
        )
        head = _HEAD.pack(clock, rules, checkpoint, digest, len(rows), len(lists))
        if not rows:
            return wrap(FORMAT, head + lists)
        sessions, opcodes, indexes, kinds, bodies = zip(*rows, strict=True)
        columns = _columns(len(rows)).pack(*sessions, *opcodes, *indexes, *map(len, bodies), *kinds)
        return wrap(FORMAT, b"".join((head, columns, lists, *bodies)))


def encode_void(clock: int) -> bytes:
    """An entry without requests: it fills a number whose own entry etcd has refused."""
    return EntryWriter().finish(clock, 0, 0, 0)


def decode_entry(value: bytes) -> Entry:
    """Raises BadValue for a damaged value, another format, or a kind or rule that this release lacks."""
    body, (clock, rules, checkpoint, digest), kinds, columns, lists, end = _opened(value)
    count = len(kinds)
    rows = zip(kinds, columns, columns[count:], columns[2 * count :], columns[3 * count :], strict=False)
    requests = []
    try:
        for kind, session_id, opcode, index, size in rows:
            start, end = end, end + size
            fields = kind, session_id, opcode, lists[index], body[start:end]
            requests.append(new_tuple(Request, fields))
    except IndexError:
        raise BadValue(_NO_IDENTITIES) from None
    if end != len(body):
        raise BadValue(f"an entry's requests end at byte {end} of {len(body)}")
    return Entry(clock, rules, checkpoint, digest, requests)


def kinds_in(value: bytes) -> bytes:
    """The kind of each request of a value that `decode_entry` takes. Raises BadValue for all others."""
    body, _, kinds, columns, lists, end = _opened(value)
    count = len(kinds)
    if max(columns[2 * count : 3 * count], default=-1) >= len(lists):
        raise BadValue(_NO_IDENTITIES)
    end += sum(columns[3 * count : 4 * count])
    if end != len(body):
        raise BadValue(f"an entry's requests end at byte {end} of {len(body)}")
    return kinds


_NO_IDENTITIES = "an entry has a request whose identities are not in it"
_Opened: TypeAlias = tuple[bytes, tuple[int, int, int, int], bytes, tuple[int, ...], list[Identities], int]


def _opened(value: bytes) -> _Opened:
    """The body; the fields but the requests; kinds, columns, identity lists; where the first body begins."""
    body = unwrap(FORMAT, value, "an entry")[1]
    try:
        clock, rules, checkpoint, digest, count, lists_size = _HEAD.unpack_from(body)
    except StructError:
        raise BadValue(f"an entry's body of {len(body)} bytes is cut short") from None
    if rules & _UNKNOWN_RULES:
        raise BadValue(f"an entry has rules {rules:#x}; this release knows {_KNOWN_RULES:#x}")
    lists_start = _HEAD.size + count * _ROW_SIZE
    bodies_start = lists_start + lists_size
    if bodies_start > len(body):
        raise BadValue(f"an entry of {count} requests has only {len(body)} bytes")
    lists = _unpack_lists(body[lists_start:bodies_start])
    kinds = body[lists_start - count : lists_start]
    if unknown := kinds.translate(None, _KNOWN_KINDS):
        raise BadValue(f"an entry has a request of kind {unknown[0]}, which this release does not know")
    columns = _columns(count).unpack_from(body, _HEAD.size)
    return body, (clock, rules, checkpoint, digest), kinds, columns, lists, bodies_start


# A proxy's entries name the same few lists again and again. Long ones are not kept: a client may call itself
# what it likes, and could fill the memory with names.
_MOST_CACHED = 4096
_LONGEST_CACHED = 1024
_lists: dict[bytes, list[Identities]] = {}


def _unpack_lists(packed: bytes) -> list[Identities]:
    """The lists of one entry. Not to be changed: entries with the same lists share them."""
    lists = _lists.get(packed)
    if lists is None:
        fields = Fields(packed, "an entry's identities")
        lists = []
        while fields.remaining:
            lists.append(_unpack_identities(fields.raw(fields.size())))
        if len(packed) <= _LONGEST_CACHED:
            if len(_lists) >= _MOST_CACHED:
                _lists.clear()
            _lists[packed] = lists
    return lists


def size_of(identities: Identities) -> int:
    """The bytes that the identities of a connection take in an entry."""
    return _LIST_SIZE + len(_pack_identities(identities))


_packed_lists: dict[Identities, bytes] = {}
_unpacked_lists: dict[bytes, Identities] = {}


def _pack_identities(identities: Identities) -> bytes:
    packed = _packed_lists.get(identities)
    if packed is None:
        packed = pack_texts([text for identity in identities for text in identity])
        if len(packed) <= _LONGEST_CACHED:
            if len(_packed_lists) >= _MOST_CACHED:
                _packed_lists.clear()
            _packed_lists[identities] = packed
    return packed


def _unpack_identities(packed: bytes) -> Identities:
    """Equal lists of all entries are one tuple, so that what depends on them can be looked up by it."""
    identities = _unpacked_lists.get(packed)
    if identities is None:
        fields = Fields(packed, "an entry's identities")
        found = []
        while fields.remaining:
            found.append(Identity(fields.text(), fields.text()))
        identities = tuple(found)
        if len(packed) <= _LONGEST_CACHED:
            if len(_unpacked_lists) >= _MOST_CACHED:
                _unpacked_lists.clear()
            _unpacked_lists[packed] = identities
    return identities


# Bodies of the kinds that proxies send themselves.


class Terms(NamedTuple):
    """Body of OPEN and ATTACH; the session's id is the request's."""

    timeout_ms: int
    password_hash: bytes  # the first 16 bytes of the password's SHA-256


#: The reason of a CLOSE that an administrator asked for begins with this; the name follows.
KILLED = "killed by "


class Close(NamedTuple):
    """Body of CLOSE."""

    reason: str  # for people, except that it may begin with KILLED
    holder: str  # the incarnation that is expected to hold the session; "": any


class CarryOver(NamedTuple):
    """Body of CARRY_OVER."""

    old: str  # the incarnation that is over


class NodeDue(NamedTuple):
    """Body of NODE_DUE: the node goes only if it still is as it was seen."""

    path: str
    version: int
    mtime: int
    czxid: int
    max_never_used_ms: int


class Epoch(NamedTuple):
    """Body of EPOCH."""

    cluster_id: int  # unsigned, 64 bits
    zxid_at_least: int


class Level(NamedTuple):
    """Body of LEVEL."""

    level: int


class Forget(NamedTuple):
    """Body of FORGET."""

    incarnation: str


_TIMEOUT = Struct(">i")
_NODE_DUE = Struct(">iqqq")
_EPOCH = Struct(">Qq")
_LEVEL = Struct(">I")


def _unpack_texts(body: bytes, count: int, what: str) -> list[str]:
    fields = Fields(body, what)
    texts = [fields.text() for _ in range(count)]
    fields.end()
    return texts


def encode_terms(timeout_ms: int, password_hash: bytes) -> bytes:
    """The arguments as in `Terms`."""
    if len(password_hash) != PASSWORD_HASH_SIZE:
        raise ValueError(f"a password hash has {len(password_hash)} bytes instead of {PASSWORD_HASH_SIZE}")
    return _TIMEOUT.pack(timeout_ms) + password_hash


def decode_terms(body: bytes) -> Terms:
    """Raises BadValue."""
    fields = Fields(body, "a session's terms")
    (timeout_ms,) = fields.unpack(_TIMEOUT)
    terms = Terms(timeout_ms, fields.raw(PASSWORD_HASH_SIZE))
    fields.end()
    return terms


def encode_close(reason: str, holder: str) -> bytes:
    """The arguments as in `Close`."""
    return pack_texts((reason, holder))


def decode_close(body: bytes) -> Close:
    """Raises BadValue."""
    return Close(*_unpack_texts(body, 2, "a session's end"))


def encode_carry_over(old: str) -> bytes:
    """The arguments as in `CarryOver`."""
    return pack_texts((old,))


def decode_carry_over(body: bytes) -> CarryOver:
    """Raises BadValue."""
    return CarryOver(*_unpack_texts(body, 1, "a carry over"))


def encode_node_due(path: str, version: int, mtime: int, czxid: int, max_never_used_ms: int) -> bytes:
    """The arguments as in `NodeDue`."""
    return _NODE_DUE.pack(version, mtime, czxid, max_never_used_ms) + pack_texts((path,))


def decode_node_due(body: bytes) -> NodeDue:
    """Raises BadValue."""
    fields = Fields(body, "a node's end")
    version, mtime, czxid, max_never_used_ms = fields.unpack(_NODE_DUE)
    path = fields.text()
    fields.end()
    return NodeDue(path, version, mtime, czxid, max_never_used_ms)


def encode_epoch(cluster_id: int, zxid_at_least: int) -> bytes:
    """The arguments as in `Epoch`."""
    return _EPOCH.pack(cluster_id, zxid_at_least)


def decode_epoch(body: bytes) -> Epoch:
    """Raises BadValue."""
    fields = Fields(body, "a new epoch")
    cluster_id, zxid_at_least = fields.unpack(_EPOCH)
    fields.end()
    return Epoch(cluster_id, zxid_at_least)


def encode_level(level: int) -> bytes:
    """The arguments as in `Level`."""
    return _LEVEL.pack(level)


def decode_level(body: bytes) -> Level:
    """Raises BadValue."""
    fields = Fields(body, "a raised level")
    (level,) = fields.unpack(_LEVEL)
    fields.end()
    return Level(level)


def encode_forget(incarnation: str) -> bytes:
    """The arguments as in `Forget`."""
    return pack_texts((incarnation,))


def decode_forget(body: bytes) -> Forget:
    """Raises BadValue."""
    return Forget(*_unpack_texts(body, 1, "a forgotten incarnation"))
