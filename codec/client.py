"""The client's side of the protocol without I/O: requests, what replies say, one connection. Pure.

A request knows its own reply: `answer_of(get("/a"), ...)` is what `get` says. `Dialogue` is one connection:
the handshake, numbered requests, frames of replies and events. What holds a socket is built on it: the
commands' client (cli.client), the pipeline's walk, the console's session, the clients of lab.client.

The server's side is in packets.py. Readers raise MalformedPacket. Paths are absolute.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from codec import packets
from codec.constants import CreateMode, ErrorCode, KeeperOpCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.framing import Framer
from codec.jute import INT, LONG, OPEN_ACL, Acl, Reader, pack_acls, pack_buffer, pack_string, pack_strings

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MAX_FRAME = 1 << 30
#: Parts of one multi, and their bytes: well below jute.maxbuffer, and applied in some milliseconds.
MOST_TOGETHER = 500
MOST_BYTES = 256 << 10
_pack_connect = Struct(">iqiq").pack  # version, last zxid, timeout, session
_END_OF_PARTS = packets.MULTI_HEADER.pack(-1, True, -1)


class ZooKeeperError(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(f"{what}: {name_of(code)}")
        self.code = code


class MultiFailed(ZooKeeperError):
    """A multi was refused. `failed` is the number of the first part that failed, `code` its error."""

    def __init__(self, codes: Sequence[int], what: str) -> None:
        reasons = (number for number, code in enumerate(codes) if code not in _NOT_TRIED)
        self.failed = next(reasons, 0)
        super().__init__(codes[self.failed], f"part {self.failed} of a {what}")
        self.codes = codes


#: The codes of a failed multi's other parts, before the one that failed and behind it.
_NOT_TRIED = (ErrorCode.OK, ErrorCode.RUNTIME_INCONSISTENCY)


# -- what replies say ----------------------------------------------------------------------------------------


class Stat(NamedTuple):
    """ZooKeeper's Stat; ctime and mtime are milliseconds since the epoch."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Data(NamedTuple):
    """The answer to `get`; null is no data."""

    data: bytes
    stat: Stat


class NullableData(NamedTuple):
    """The answer to `get_nullable`."""

    data: bytes | None
    stat: Stat


class Children(NamedTuple):
    """The answer to `children`: names in the server's order."""

    names: list[str]
    stat: Stat


class NodeAcl(NamedTuple):
    """The answer to `get_acl`."""

    acl: tuple[Acl, ...]
    stat: Stat


class Event(NamedTuple):
    """A watch event; `type` is a number of codec's EventType."""

    type: int
    path: str
    zxid: int = 0


# -- what can be asked ---------------------------------------------------------------------------------------


class Request(NamedTuple, Generic[T_co]):
    """One request."""

    opcode: OpCode | KeeperOpCode
    body: bytes
    read: Callable[[Reader], T_co]
    """Reads the body of a successful reply."""
    path: str = ""
    none_if_missing: bool = False
    """The answer is None where ZooKeeper says NO_NODE; else that is an error."""


_WITH_TTL = (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)


def create(
    path: str,
    data: bytes | None = b"",
    mode: int = CreateMode.PERSISTENT,
    acl: Sequence[Acl] = OPEN_ACL,
    ttl_ms: int = 0,
) -> Request[str]:
    """A new node; the answer is its path, with its number if it is sequential. `ttl_ms`: of modes with a TTL.

    Containers and TTL nodes have requests of their own, and answers with a Stat behind the path.
    """
    body = pack_string(path) + pack_buffer(data) + pack_acls(acl) + INT.pack(mode)
    if mode in _WITH_TTL:
        return Request(OpCode.CREATE_TTL, body + LONG.pack(ttl_ms), _path_and_stat, path)
    if mode == CreateMode.CONTAINER:
        return Request(OpCode.CREATE_CONTAINER, body, _path_and_stat, path)
    return Request(OpCode.CREATE, body, Reader.text, path)


def delete(path: str, version: int = -1) -> Request[None]:
    """Delete a node without children."""
    return Request(OpCode.DELETE, pack_string(path) + INT.pack(version), nothing, path)


def set_data(path: str, data: bytes | None, version: int = -1) -> Request[Stat]:
    """New data of a node."""
    body = pack_string(path) + pack_buffer(data) + INT.pack(version)
    return Request(OpCode.SET_DATA, body, read_stat, path)


def check(path: str, version: int = -1) -> Request[None]:
    """A part of a multi: the node is there, with this version (-1: any)."""
    return Request(OpCode.CHECK, pack_string(path) + INT.pack(version), nothing, path)


def exists(path: str, watch: bool = False) -> Request[Stat | None]:
    """The Stat of a node, None if there is no such node."""
    return Request(OpCode.EXISTS, pack_string(path) + bytes([watch]), read_stat, path, none_if_missing=True)


def get(path: str, watch: bool = False) -> Request[Data]:
    """Data and Stat of a node."""
    return Request(OpCode.GET_DATA, pack_string(path) + bytes([watch]), _data, path)


def get_nullable(path: str) -> Request[NullableData]:
    """The same, for programs that distinguish null from empty data."""
    return Request(OpCode.GET_DATA, pack_string(path) + b"\0", _nullable_data, path)


def children(path: str, watch: bool = False) -> Request[Children]:
    """The names of a node's children, and its Stat."""
    return Request(OpCode.GET_CHILDREN2, pack_string(path) + bytes([watch]), read_children, path)


def get_acl(path: str) -> Request[NodeAcl]:
    """The ACL of a node, and its Stat."""
    return Request(OpCode.GET_ACL, pack_string(path), _acl, path)


def set_acl(path: str, acl: Sequence[Acl], version: int = -1) -> Request[Stat]:
    """A new ACL of a node."""
    return Request(OpCode.SET_ACL, pack_string(path) + pack_acls(acl) + INT.pack(version), read_stat, path)


def add_watch(path: str, *, recursive: bool) -> Request[None]:
    """A persistent watch."""
    return Request(OpCode.ADD_WATCH, pack_string(path) + INT.pack(recursive), nothing, path)


def set_watches(seen_zxid: int, *paths: Sequence[str]) -> Request[None]:
    """The watches of a session on its new connection; what changed after `seen_zxid` fires at once.

    `paths`: of watches on data, on missing nodes and on children (setWatches), or these, the persistent and
    the recursive ones (setWatches2).
    """
    opcode = OpCode.SET_WATCHES if len(paths) == 3 else OpCode.SET_WATCHES2
    return Request(opcode, LONG.pack(seen_zxid) + b"".join(map(pack_strings, paths)), nothing)


def sync(path: str = "/") -> Request[str]:
    """Answered when the server has applied all that was committed before."""
    return Request(OpCode.SYNC, pack_string(path), Reader.text, path)


def auth(scheme: str, credentials: bytes) -> Request[None]:
    """Prove an identity; it is sent with Xid.AUTH."""
    return Request(OpCode.AUTH, INT.pack(0) + pack_string(scheme) + pack_buffer(credentials), nothing)


def sasl(token: bytes | None) -> Request[bytes]:
    """One step of SASL; the answer is the server's token."""
    return Request(OpCode.SASL, pack_buffer(token), lambda reader: reader.buffer() or b"")


def close() -> Request[None]:
    """The end of the session."""
    return Request(OpCode.CLOSE_SESSION, b"", nothing)


def multi(parts: Sequence[Request[object]]) -> Request[list[object]]:
    """All of these or none. The answer has each part's; `answer_of` raises MultiFailed where one fails."""
    packed = [packets.MULTI_HEADER.pack(part.opcode, False, -1) + part.body for part in parts]

    def read(reader: Reader) -> list[object]:
        results: list[object] = []
        for part in parts:
            opcode, _, _ = packets.read_multi_header(reader)
            if opcode != _ANSWERED_AS.get(part.opcode, part.opcode):
                raise MalformedPacket(f"a multi's part of type {opcode} answers one of type {part.opcode}")
            results.append(part.read(reader))
        return results

    return Request(OpCode.MULTI, b"".join(packed) + _END_OF_PARTS, read)


def batches(requests: Sequence[Request[T]]) -> Iterator[list[Request[T]]]:
    """The requests in their order, as the parts of multis that are not too large."""
    batch: list[Request[T]] = []
    size = 0
    for request in requests:
        if batch and (len(batch) >= MOST_TOGETHER or size + len(request.body) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += len(request.body)
    if batch:
        yield batch


_ANSWERED_AS: dict[int, int] = {OpCode.CREATE_CONTAINER: OpCode.CREATE2, OpCode.CREATE_TTL: OpCode.CREATE2}


def maybe(request: Request[T]) -> Request[T | None]:
    """The same, with the answer None where there is no such node."""
    return request._replace(none_if_missing=True)


def stamped(request: Request[T]) -> Request[tuple[T, int]]:
    """The same, with the zxid of the reply's header behind the answer: for a write, the write's own."""

    def read(reader: Reader) -> tuple[T, int]:
        zxid = header(reader.data).zxid
        return request.read(reader), zxid

    return Request(request.opcode, request.body, read, request.path)


# -- one connection ------------------------------------------------------------------------------------------


class Connected(NamedTuple):
    """The answer to a connect request. Session 0: the server refuses the session."""

    session: int
    password: bytes
    timeout_ms: int


class Header(NamedTuple):
    """The header of a reply."""

    xid: int
    zxid: int
    error: int


NO_SESSION = Connected(0, bytes(16), 0)


def connect(timeout_ms: int, last_zxid: int = 0, session: int = 0, password: bytes = bytes(16)) -> bytes:
    """The frame that requests a new session (0), or continues one."""
    return pack_buffer(_pack_connect(0, last_zxid, timeout_ms, session) + pack_buffer(password) + b"\0")


def connected(frame: bytes) -> Connected:
    """The answer to a connect request."""
    reader = Reader(frame)
    try:
        _version, timeout_ms, session, password = reader.int(), reader.int(), reader.long(), reader.buffer()
    except MalformedPacket as error:
        raise MalformedPacket(f"an answer of {len(frame)} bytes to a connect request") from error
    return Connected(session, password or b"", timeout_ms)


def framed(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """The frame of any request."""
    return pack_buffer(packets.REQUEST_HEADER.pack(xid, opcode) + body)


PING = framed(Xid.PING, OpCode.PING)


def packet(xid: int, request: Request[object], *, watch: bool = False) -> bytes:
    """The frame of a request. `watch` sets the flag with which exists, get and children end."""
    body = request.body[:-1] + b"\1" if watch else request.body
    return framed(xid, request.opcode, body)


class Dialogue:
    """One connection: what is sent, and what the server's bytes say.

    Its owner keeps the requests in flight: one gives futures, another returns replies as they come.
    """

    def __init__(self, xids: Iterator[int] | None = None, max_frame: int = _MAX_FRAME) -> None:
        """`xids`: the numbers of the session's requests, if an earlier connection has used some."""
        self.granted: Connected | None = None
        """The answer to the connect request, once it has come."""
        self._framer = Framer(max_frame)
        self._xids = count(1) if xids is None else xids

    def request(self, request: Request[Any], *, watch: bool = False) -> tuple[int, bytes]:
        """The next request: its xid, and what to send."""
        xid = next(self._xids)
        return xid, packet(xid, request, watch=watch)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames of replies and events that `data` completes. Raises MalformedPacket."""
        frames = self._framer.feed(data)
        if frames and self.granted is None:
            self.granted = connected(frames.pop(0))
        return frames


def header(frame: bytes) -> Header:
    """The header of a reply or an event."""
    if len(frame) < packets.REPLY_HEADER.size:
        raise MalformedPacket(f"a reply of {len(frame)} bytes")
    return Header(*packets.REPLY_HEADER.unpack_from(frame))


def body(frame: bytes) -> Reader:
    """What follows the header."""
    return Reader(frame, packets.REPLY_HEADER.size)


def answer_of(request: Request[Any], error: int, body: Reader) -> Any:
    """What a reply says. Raises ZooKeeperError, MultiFailed, or MalformedPacket."""
    what = f"{request.opcode.name} {request.path}".rstrip()
    if error == ErrorCode.NO_NODE and request.none_if_missing:
        return None
    if request.opcode == OpCode.MULTI and body.remaining:
        # Its header has no error: the parts have, all of them if one failed.
        opcode, done, _ = packets.read_multi_header(Reader(body.data, body.position))
        if opcode == OpCode.ERROR and not done:
            raise MultiFailed(multi_errors(body), what)
    if error:
        raise ZooKeeperError(error, what)
    return request.read(body)


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


def read_event(reader: Reader, zxid: int = 0) -> Event:
    """A watch event's body."""
    kind, _state = reader.int(), reader.int()
    return Event(kind, reader.text(), zxid)


def read_stat(reader: Reader) -> Stat:
    """A Stat."""
    if reader.remaining < packets.STAT.size:
        raise MalformedPacket("a reply ends within a Stat")
    found = Stat._make(packets.STAT.unpack_from(reader.data, reader.position))
    reader.position += packets.STAT.size
    return found


def read_children(reader: Reader) -> Children:
    """The body of getChildren2's reply."""
    return Children([name or "" for name in reader.strings() or ()], read_stat(reader))


def nothing(_: Reader) -> None:
    """The body of a reply that says only that it is done."""


def name_of(code: int) -> str:
    """The name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _path_and_stat(reader: Reader) -> str:
    path = reader.text()
    read_stat(reader)
    return path


def _data(reader: Reader) -> Data:
    return Data(reader.buffer() or b"", read_stat(reader))


def _nullable_data(reader: Reader) -> NullableData:
    return NullableData(reader.buffer(), read_stat(reader))


def _acl(reader: Reader) -> NodeAcl:
    return NodeAcl(reader.acls() or (), read_stat(reader))
