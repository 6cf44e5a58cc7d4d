"""The two forms of a znode in memory. `Tree` and `Transaction` change nodes; other code reads both alike.

Most znodes never have a child. Such a node is one bytes object, the reply to getData: 224 bytes for 100 bytes
of data. With its fields apart it would take 320 bytes, 64 more when it has been set, and 112 more when its
Stat has been read (docs/decisions/0037-packed-znodes.md).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from io import BytesIO
from itertools import chain, repeat
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from codec.constants import ErrorCode
from codec.jute import INT, NULL, OPEN_ACL, Acl, from_text, pack_strings
from codec.packets import STAT
from proxy.state import bounded
from proxy.state.outcome import Refusal
from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE, Pause
from proxy.state.rights import OPEN, Rights, rights_of
from schema.pages import NodePage
from schema.znode import Fields, Znode, pack_stat, session_of, wrap_int

# So many names are packed, or nodes visited, in about the time of one step.
PACKED_PER_STEP = 16
_SEEN_PER_STEP = 16  # names: they lie anywhere in memory
_SHORT = 256  # characters
_MOST_PER_CHARACTER = 6  # bytes: two surrogates of three

# Packed nodes have at most so many different ACLs, none of more characters than this; nodes with other ones
# stay full nodes. The classes of these ACLs are never freed.
_MOST_ACLS = 256
_LONGEST_ACL = 1024
# Bytes of data. A full node with more stays one: setACL of a few bytes would copy them each time.
_MOST_COPIED = 16 << 10

_NO_NAMES = pack_strings(())
# The sizes of short strings, as they precede these in a vector.
_SIZES = [size.decode() for size in map(INT.pack, range(128))]
_MAX_INT = (1 << 31) - 1
_HEAD = INT.size
_AROUND = _HEAD + STAT.size  # bytes of a packed node besides its data
_TAIL = -STAT.size
_CTIME = _TAIL + 16
_SIZE = _TAIL + 52
_PZXID = _TAIL + 60
# czxid mzxid pzxid ctime mtime version cversion aversion ephemeralOwner
_pack_digested = Struct(">qqqqqiiiq").pack
_pack_int = INT.pack
_pack = STAT.pack
_fields_at = STAT.unpack_from
_long_at = Struct(">q").unpack_from
_int_at = INT.unpack_from


class FullNode(Znode):
    """A znode with its fields apart, and a cache of bytes that reads send. Any znode can have this form.

    Code that changes such a node has to call `changed`.
    """

    __slots__ = ("_names", "_stat", "children", "rights")

    # Their paths: the tree's own strings. A set, without order, takes three times as long to list.
    children: dict[str, None] | None
    rights: Rights

    def __init__(self, *fields: *Fields) -> None:
        """As Znode's."""
        super().__init__(*fields)
        self.children = None
        self._stat: bytes | None = None
        self._names: bytes | None = None

    @property
    def acl(self) -> tuple[Acl, ...]:
        """The ACL that gives the rights."""
        return self.rights.acl

    @acl.setter
    def acl(self, acl: tuple[Acl, ...]) -> None:
        self.rights = rights_of(acl)

    def changed(self) -> None:
        """A field has changed, or a child was created or deleted."""
        self._stat = self._names = None

    def content(self) -> bytes:
        """The reply to getData: the data and the Stat."""
        data = self.data
        return (NULL if data is None else _pack_int(len(data)) + data) + self.stat()

    def stat(self) -> bytes:
        """The node's Stat as ZooKeeper sends it; cached."""
        packed = self._stat
        if packed is None:
            children = self.children
            packed = self._stat = pack_stat(self, len(children) if children else 0)
        return packed

    def names(self, pause: Pause = NO_PAUSE, when_seen: Callable[[], None] | None = None) -> bytes:
        """The names of its children, packed; cached. `pack_children` has the rest."""
        packed = self._names
        if packed is None:
            as_of = self.pzxid
            packed = pack_children(self.children or (), pause, when_seen)
            if self.pzxid == as_of:
                self._names = packed
        elif when_seen is not None:
            when_seen()
        return packed

    def names_size(self, pause: Pause = NO_PAUSE) -> int:
        """Characters of the names of its children, about."""
        packed, children = self._names, self.children
        if packed is not None or not children:
            return len(packed or ())
        return _size(children, pause) - _start_of_names(children) * len(children)

    def digested(self) -> bytes:
        """What ZooKeeper's digest hashes behind the path."""
        return (self.data or b"") + _pack_digested(
            self.czxid,
            self.mzxid,
            self.pzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.created,
            self.aversion,
            self.owner,
        )

    def packed(self) -> "Node":
        """The same node as a packed node, if it can be one and that is not much to copy."""
        if self.size > _MOST_COPIED:
            return self
        kind = packed_kind(self.rights, self.owner)
        return self if kind is None or self.created or self.children else kind(self.content())


def _long(offset: int) -> property:
    place = _TAIL + offset
    return property(lambda node: _long_at(node, place)[0])


def _int(offset: int) -> property:
    place = _TAIL + offset
    return property(lambda node: _int_at(node, place)[0])


class PackedNode(bytes):
    """A znode that never had a child, as the reply to getData: size of the data, data, Stat.

    It cannot be changed; another one takes its place. It is no container and has no TTL, since their Stat
    does not show their owner.
    """

    __slots__ = ()

    # `packed_kind` has a class for each ACL.
    acl: tuple[Acl, ...] = OPEN_ACL
    rights = OPEN
    children = None
    created = 0

    @property
    def data(self) -> bytes | None:
        """None is ZooKeeper's null."""
        return None if self.startswith(NULL) else self[_HEAD:_TAIL]

    @property
    def size(self) -> int:
        """How many bytes of data it has."""
        return len(self) - _AROUND

    # As Znode's.
    czxid = _long(0)
    mzxid = _long(8)
    ctime = _long(16)
    mtime = _long(24)
    version = _int(32)
    aversion = _int(40)
    owner = _long(44)
    pzxid = _long(60)

    def fields(self) -> Fields:
        """As Znode's."""
        czxid, mzxid, ctime, mtime, version, _, aversion, owner, _, _, pzxid = _fields_at(self, _TAIL)
        return self.data, self.acl, owner, czxid, mzxid, pzxid, ctime, mtime, version, 0, aversion

    def content(self) -> bytes:
        """The reply to getData: the data and the Stat."""
        return self

    def stat(self) -> bytes:
        """The node's Stat as ZooKeeper sends it."""
        return self[_TAIL:]

    def names(self, _pause: Pause = NO_PAUSE, when_seen: Callable[[], None] | None = None) -> bytes:
        """The names of no children, packed."""
        if when_seen is not None:
            when_seen()
        return _NO_NAMES

    def names_size(self, _pause: Pause = NO_PAUSE) -> int:
        """There are none."""
        return 0

    def digested(self) -> bytes:
        """What ZooKeeper's digest hashes behind the path."""
        return b"".join(digested_parts(self))

    def written(self, data: bytes | None, zxid: int, time: int) -> "PackedNode":
        """The node after a setData."""
        czxid, _, ctime, _, version, _, aversion, owner, _, _, pzxid = _fields_at(self, _TAIL)
        version = version + 1 if version != _MAX_INT else wrap_int(version + 1)
        size = len(data) if data else 0
        stat = _pack(czxid, zxid, ctime, time, version, 0, aversion, owner, size, 0, pzxid)
        return self.__class__((NULL if data is None else _pack_int(size) + data) + stat)

    def full(self) -> FullNode:
        """The same node as a full node."""
        return FullNode(*self.fields())


#: Of a packed node, what follows each other in `digested`.
digested_parts: Callable[[Any], tuple[bytes, bytes, bytes]] = itemgetter(
    slice(_HEAD, _CTIME), slice(_PZXID, None), slice(_CTIME, _SIZE)
)

Node: TypeAlias = FullNode | PackedNode


def total_size(nodes: Collection[Node]) -> int:
    """How many bytes of data they have."""
    if FullNode in map(type, nodes):
        return sum(node.size for node in nodes)
    return sum(map(len, nodes)) - _AROUND * len(nodes)  # type: ignore[arg-type]


_kinds: dict[Rights, type[PackedNode]] = {OPEN: PackedNode}


def packed_kind(rights: Rights, owner: int) -> type[PackedNode] | None:
    """The class of packed nodes with an ACL; None if a node with this ACL and owner has to be a full node."""
    if owner and session_of(owner) != owner:
        return None
    kind = _kinds.get(rights)
    if kind is None and len(_kinds) < _MOST_ACLS:
        size = 0
        for _, scheme, name in rights.acl:
            size += len(scheme) + len(name)
            if size > _LONGEST_ACL:
                return None
        members = {"__slots__": (), "acl": rights.acl, "rights": rights}
        kind = _kinds[rights] = type("PackedNode", (PackedNode,), members)
    return kind


def new_node(data: bytes | None, rights: Rights, owner: int, zxid: int, time: int) -> Node:
    """A node that a client creates."""
    kind = PackedNode if rights is OPEN and not owner else packed_kind(rights, owner)
    if kind is None:
        node = FullNode(data, OPEN_ACL, owner, zxid, zxid, zxid, time, time, 0, 0, 0)
        node.rights = rights
        return node
    size = len(data) if data else 0
    stat = _pack(zxid, zxid, time, time, 0, 0, 0, owner, size, 0, zxid)
    return kind((NULL if data is None else _pack_int(size) + data) + stat)


def full_node(nodes: dict[str, Node], path: str) -> FullNode:
    """An existing node as a full node, to be changed. Raises KeyError."""
    node = nodes[path]
    if isinstance(node, PackedNode):
        node = nodes[path] = node.full()
    return node


def make_node(*fields: *Fields) -> Node:
    """A node without children, of what Znode takes."""
    return FullNode(*fields).packed()


def nodes_of(page: NodePage) -> list[Node]:
    """The nodes of a page of a snapshot, before they are linked to their parents. Raises BadValue."""
    table, indexes = page.acls()
    rights = list(map(rights_of, table))
    kinds = [packed_kind(each, 0) for each in rights]
    classes = [kind or PackedNode for kind in kinds]
    read = BytesIO(page.rows(*_REPLIED)).read  # in turn the size of the data and the Stat of a node
    sizes, stats = (map(read, repeat(size, page.count)) for size in (_HEAD, STAT.size))
    replies = map(b"".join, zip(sizes, page.data, stats, strict=True))
    packed = (
        list(map(classes[0], replies))
        if len(classes) == 1
        else [classes[index](reply) for index, reply in zip(indexes, replies, strict=True)]
    )
    found: list[Node] = list(packed)
    for place in _odd(page, [index for index, kind in enumerate(kinds) if kind is None], indexes):
        czxid, mzxid, ctime, mtime, version, created, aversion, owner, length, _, pzxid = _fields_at(
            packed[place], _TAIL
        )
        data = None if length < 0 else page.data[place]
        stamps = (czxid, mzxid, pzxid, ctime, mtime)
        node = FullNode(data, OPEN_ACL, owner, *stamps, version, created, aversion)
        node.rights = rights[indexes[place]]
        found[place] = node.packed()
    return found


# The columns of a packed node, as a new node has them: its cversion and numChildren are 0.
_REPLIED = (
    *("length", "czxid", "mzxid", "ctime", "mtime", "version", "created", "aversion"),
    *("owner", "length", "", "pzxid"),
)


def _odd(page: NodePage, full: Sequence[int], indexes: Sequence[int]) -> list[int]:
    """The places of a page's znodes whose columns are not those of a packed node. `full`: ACLs."""
    found: list[int] = []
    if page.has("created"):
        found += [place for place, created in enumerate(page.numbers("created")) if created]
    if page.has_null:
        found += [place for place, length in enumerate(page.lengths) if length < 0]
    if page.has("owner"):
        found += [place for place, owner in enumerate(page.numbers("owner")) if owner < 0]
    if full:
        found += [place for place, index in enumerate(indexes) if index in full]
    return found


def pack_names(names: Collection[str], pause: Pause) -> bytes:
    """A vector of strings. May raise TooLong, and BADARGUMENTS if they are too many for a reply."""
    return _pack_texts(names, 0, pause)


def pack_children(paths: Collection[str], pause: Pause, when_seen: Callable[[], None] | None = None) -> bytes:
    """The names of a node's children, from their paths. Raises as `pack_names`.

    `when_seen` is called when nothing more is raised, while the state is what the names show: it may change
    while very many are packed (`Pause.leaving`).
    """
    return _pack_texts(paths, _start_of_names(paths), pause, when_seen)


def child_names(node: Node) -> Iterator[str]:
    """The names of the node's children."""
    paths = node.children or ()
    start = _start_of_names(paths)
    return (path[start:] for path in paths)


def _start_of_names(paths: Collection[str]) -> int:
    return next(iter(paths)).rfind("/") + 1 if paths else 0


def _size(texts: Collection[str], pause: Pause) -> int:
    """How many characters they have."""
    if len(texts) <= pause.every:
        return sum(map(len, texts))
    return sum(sum(map(len, some)) for some in pause.batches(texts, _SEEN_PER_STEP))


class _Copied(NamedTuple):
    """Texts that may be packed while the state changes, and what was seen of them while they were copied.

    One pass: a million come from memory only slowly, and the log waits.
    """

    texts: list[str]
    size: int  # characters
    are_ascii: bool


def _copied(texts: Collection[str], pause: Pause) -> _Copied:
    copied: list[str] = []
    size = 0
    are_ascii = True
    for some in pause.batches(texts, _SEEN_PER_STEP):
        copied += some
        size += sum(map(len, some))
        are_ascii = are_ascii and all(map(str.isascii, some))
    return _Copied(copied, size, are_ascii)


def _fit(texts: Collection[str], start: int, size: int, are_ascii: bool, pause: Pause) -> bool:
    """Whether a reply has room for what the texts have from a place on, `size` characters."""
    room = bounded.MOST - INT.size * (len(texts) + 1)
    if are_ascii or size > room or size * _MOST_PER_CHARACTER <= room:
        return size <= room
    if all(all(map(str.isascii, some)) for some in pause.batches(texts, _SEEN_PER_STEP)):
        return True
    for some in pause.texts(texts, 4):
        room -= sum(len(from_text(text[start:])) for text in some)
    return room >= 0


def _pack_texts(
    texts: Collection[str], start: int, pause: Pause, when_seen: Callable[[], None] | None = None
) -> bytes:
    """Pack what the texts have from a place on."""
    count = len(texts)
    steps = count // PACKED_PER_STEP
    pause.expect(steps)
    copied = _copied(texts, pause) if pause.may_leave else None
    if copied is None:
        size, are_ascii = _size(texts, pause), False  # `_fit` asks where it has to know
    else:
        texts, size, are_ascii = copied
    size -= start * count
    pause.expect(steps + size // BYTES_PER_STEP)
    if not _fit(texts, start, size, are_ascii, pause):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    is_long = size > pause.every * BYTES_PER_STEP
    if count <= pause.every and not is_long:
        if when_seen is not None:
            when_seen()
        return pack_strings([text[start:] for text in texts] if start else texts)
    body = bounded.Body(pause)
    body.add(INT.pack(count))
    are_long = is_long and size > count * _SHORT
    with pause.leaving(when_seen or (lambda: None)):
        for some in (pause.texts if are_long else pause.batches)(texts, 2):
            body.add(_pack_many(some, start))
        if copied is not None:
            pause.clear(copied.texts)
    return body.whole()


def _pack_many(texts: Sequence[str], start: int) -> bytes:
    """What the texts have from a place on, as in a vector. They have the same before it.

    Names of one length take a fifth of the time of others, and short ones of ASCII half of it.
    """
    longest = max(map(len, texts))
    if 0 < start <= _SHORT and longest == min(map(len, texts)):
        joined = "".join(texts)
        if joined.isascii():
            # No name has a slash: so what is found is the path of the parent.
            return joined.encode().replace(texts[0][:start].encode(), INT.pack(longest - start))
    names = [text[start:] for text in texts] if start else texts
    if longest - start < len(_SIZES):
        joined = "".join(
            chain.from_iterable(zip(map(_SIZES.__getitem__, map(len, names)), names, strict=True))
        )
        if joined.isascii():
            return joined.encode()
    return pack_strings(names)[INT.size :]
