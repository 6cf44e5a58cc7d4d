"""What a client can ask of ZooKeeper, and how the replies are read. Pure.

A request knows its own reply: `Session.call(get("/a"))` returns what `get` says. Paths are absolute. All
nodes are created with an open ACL. Readers raise codec's MalformedPacket.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from codec import packets
from codec.client import PING as PING
from codec.client import Children as Children
from codec.client import Connected as Connected
from codec.client import Header as Header
from codec.client import Stat as Stat
from codec.client import body as body
from codec.client import children as children_of
from codec.client import connect as connect
from codec.client import connected as connected
from codec.client import header as header
from codec.client import name_of as name_of
from codec.client import request as framed
from codec.client import stat as stat_of
from codec.constants import CreateMode, EventType, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import INT, LONG, OPEN_ACLS, Acl, Reader, pack_acls, pack_buffer, pack_string, pack_strings

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


_END_OF_PARTS = packets.MULTI_HEADER.pack(-1, True, -1)


class Request(NamedTuple, Generic[T_co]):
    """One request."""

    opcode: OpCode
    body: bytes
    read: Callable[[Reader], T_co]
    """Reads the body of a successful reply."""
    path: str = ""
    none_if_missing: bool = False
    """The answer is None where ZooKeeper says NO_NODE; else that is an error."""


class Data(NamedTuple):
    """The answer to `get`."""

    data: bytes
    stat: Stat


class Event(NamedTuple):
    """A watch event; `type` is a number of codec's EventType."""

    type: int
    path: str
    zxid: int = 0


class Reply(NamedTuple):
    """A reply: its header and its body, and what the body says where it is of that kind."""

    xid: int
    zxid: int
    err: int
    body: bytes

    @property
    def stat(self) -> Stat:
        """The Stat of a reply to exists or setData."""
        return stat_of(Reader(self.body))

    @property
    def path(self) -> str:
        """The path of a reply to create."""
        return Reader(self.body).text()

    @property
    def data(self) -> bytes:
        """The data of a reply to getData."""
        return Reader(self.body).buffer() or b""

    @property
    def event(self) -> tuple[int, str]:
        """(type, path) of a watch event."""
        kind, path, _ = event(Reader(self.body))
        return kind, path


class Part(NamedTuple):
    """The result of one part of a multi: an error, or path and Stat where it has them."""

    error: int
    path: str | None = None
    stat: Stat | None = None


def create(path: str, data: bytes | None = b"", mode: int = CreateMode.PERSISTENT) -> Request[str]:
    """A new node; the answer is its path, with its number if it is sequential."""
    body = pack_string(path) + pack_buffer(data) + OPEN_ACLS + INT.pack(mode)
    return Request(OpCode.CREATE, body, Reader.text, path)


def delete(path: str, version: int = -1) -> Request[None]:
    """Delete a node without children."""
    return Request(OpCode.DELETE, pack_string(path) + INT.pack(version), _nothing, path)


def set_data(path: str, data: bytes, version: int = -1) -> Request[Stat]:
    """New data of a node."""
    body = pack_string(path) + pack_buffer(data) + INT.pack(version)
    return Request(OpCode.SET_DATA, body, stat_of, path)


def check(path: str, version: int = -1) -> Request[None]:
    """A part of a multi: the node is there, with this version (-1: any)."""
    return Request(OpCode.CHECK, pack_string(path) + INT.pack(version), _nothing, path)


def create_container(path: str, data: bytes = b"") -> Request[str]:
    """A new container; the answer is its path."""
    body = pack_string(path) + pack_buffer(data) + OPEN_ACLS + INT.pack(CreateMode.CONTAINER)
    return Request(OpCode.CREATE_CONTAINER, body, Reader.text, path)


def create_ttl(path: str, ttl_ms: int, data: bytes = b"") -> Request[str]:
    """A new TTL node; the answer is its path."""
    body = pack_string(path) + pack_buffer(data) + OPEN_ACLS + INT.pack(CreateMode.PERSISTENT_WITH_TTL)
    return Request(OpCode.CREATE_TTL, body + LONG.pack(ttl_ms), Reader.text, path)


def exists(path: str, watch: bool = False) -> Request[Stat | None]:
    """The Stat of a node, None if there is no such node."""
    return Request(OpCode.EXISTS, pack_string(path) + bytes([watch]), stat_of, path, none_if_missing=True)


def get(path: str, watch: bool = False) -> Request[Data]:
    """Data and Stat of a node."""
    return Request(OpCode.GET_DATA, pack_string(path) + bytes([watch]), _data, path)


def children(path: str, watch: bool = False) -> Request[Children]:
    """The names of a node's children, and its Stat."""
    return Request(OpCode.GET_CHILDREN2, pack_string(path) + bytes([watch]), children_of, path)


def get_acl(path: str) -> Request[tuple[Acl, ...]]:
    """The ACL of a node."""
    return Request(OpCode.GET_ACL, pack_string(path), lambda reader: reader.acls() or (), path)


def set_acl(path: str, acl: Sequence[Acl], version: int = -1) -> Request[Stat]:
    """A new ACL of a node."""
    return Request(OpCode.SET_ACL, pack_string(path) + pack_acls(acl) + INT.pack(version), stat_of, path)


def add_watch(path: str, *, recursive: bool) -> Request[None]:
    """A persistent watch."""
    return Request(OpCode.ADD_WATCH, pack_string(path) + INT.pack(recursive), _nothing, path)


def set_watches(
    seen_zxid: int, data: Sequence[str], absent: Sequence[str], listed: Sequence[str]
) -> Request[None]:
    """The watches of a session on its new connection; what changed after `seen_zxid` fires at once."""
    lists = b"".join(map(pack_strings, (data, absent, listed)))
    return Request(OpCode.SET_WATCHES, LONG.pack(seen_zxid) + lists, _nothing)


def set_watches2(seen_zxid: int, *kinds: Sequence[str]) -> Request[None]:
    """The same, with persistent and recursive watches behind the others."""
    return Request(OpCode.SET_WATCHES2, LONG.pack(seen_zxid) + b"".join(map(pack_strings, kinds)), _nothing)


def sync(path: str) -> Request[str]:
    """Answered when the server has applied all that was committed before."""
    return Request(OpCode.SYNC, pack_string(path), Reader.text, path)


def close() -> Request[None]:
    """The end of the session."""
    return Request(OpCode.CLOSE_SESSION, b"", _nothing)


def maybe(request: Request[T]) -> Request[T | None]:
    """The same, with the answer None where there is no such node."""
    return request._replace(none_if_missing=True)


def multi(parts: Sequence[Request[object]]) -> Request[list[object]]:
    """All of these or none. The answer has each part's; Session.call raises MultiFailed where one fails."""
    packed = [packets.MULTI_HEADER.pack(part.opcode, False, -1) + part.body for part in parts]

    def read(reader: Reader) -> list[object]:
        results: list[object] = []
        for part in parts:
            opcode, _, _ = packets.read_multi_header(reader)
            if opcode != part.opcode:
                raise MalformedPacket(f"a multi's part of type {opcode} answers one of type {part.opcode}")
            results.append(part.read(reader))
        return results

    return Request(OpCode.MULTI, b"".join(packed) + _END_OF_PARTS, read)


def stamped(request: Request[T]) -> Request[tuple[T, int]]:
    """The same, with the zxid of the reply's header behind the answer: for a write, the write's own."""

    def read(reader: Reader) -> tuple[T, int]:
        zxid = header(reader.data).zxid
        return request.read(reader), zxid

    return Request(request.opcode, request.body, read, request.path)


def parts_of(body: bytes) -> list[Part]:
    """The results of a multi's parts, be it successful or not."""
    reader, parts = Reader(body), list[Part]()
    while True:
        opcode, done, error = packets.read_multi_header(reader)
        if done:
            return parts
        path = reader.text() if opcode in (OpCode.CREATE, OpCode.CREATE2) else None
        stat = stat_of(reader) if opcode in (OpCode.SET_DATA, OpCode.CREATE2) else None
        parts.append(Part(reader.int() if opcode == OpCode.ERROR else error, path, stat))


def multi_errors(reader: Reader) -> list[int]:
    """The codes of a failed multi's parts: 0 before the one that failed, RUNTIME_INCONSISTENCY behind it."""
    codes: list[int] = []
    while True:
        opcode, done, code = packets.read_multi_header(reader)
        if done:
            return codes
        if opcode != OpCode.ERROR:
            raise MalformedPacket(f"a failed multi has a part of type {opcode}")
        codes.append(reader.int() or code)


def packet(xid: int, request: Request[object], *, watch: bool = False) -> bytes:
    """A request as it is sent. `watch` sets the flag with which exists, get and children end."""
    body = request.body[:-1] + b"\1" if watch else request.body
    return framed(xid, request.opcode, body)


def event(reader: Reader, zxid: int = 0) -> Event:
    """A watch event's body."""
    kind, _state = reader.int(), reader.int()
    return Event(kind, reader.text(), zxid)


def message(frame: bytes) -> Reply | Event:
    """A reply or an event."""
    xid, zxid, error = header(frame)
    if xid == Xid.NOTIFICATION:
        return event(body(frame), zxid)
    return Reply(xid, zxid, error, frame[packets.REPLY_HEADER.size :])


# The events that end a watch, by the request that set it.
ENDS_DATA_WATCH = frozenset(
    {EventType.NODE_CREATED, EventType.NODE_DELETED, EventType.NODE_DATA_CHANGED},
)
ENDS_CHILD_WATCH = frozenset({EventType.NODE_DELETED, EventType.NODE_CHILDREN_CHANGED})


def _nothing(_: Reader) -> None:
    return None


def _data(reader: Reader) -> Data:
    return Data(reader.buffer() or b"", stat_of(reader))
