"""What clients send: framing, the handshake, requests; and PROXY headers of balancers."""

from collections.abc import Callable, Iterator
from typing import Any

from codec.constants import KeeperOpCode, OpCode
from codec.errors import FrameTooLong, MalformedPacket, NullString
from codec.framing import Framer
from codec.jute import NO_TEXT, Acl, Reader
from codec.keeper import OpeningFramer, decode_wide_connect
from codec.packets import decode_connect
from lab.oracle import records
from lab.oracle.records import Record
from lab.oracle.requests import RECORDS
from lab.oracle.wire import UNREADABLE, Cursor
from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.pieces import Pieces, cut, same
from proxy.frontend import proxy_protocol
from proxy.state.ops import EXTENDED
from proxy.state.ops.unreadable import NullAcl


def _frames(framer: Framer | OpeningFramer, chunks: Iterator[bytes]) -> tuple[list[bytes], int | None]:
    """All frames, and the length that was too long."""
    frames: list[bytes] = []
    for chunk in chunks:
        try:
            frames += framer.feed(chunk)
        except FrameTooLong as error:
            return frames + error.frames, error.length
    return frames, None


def framing(data: bytes) -> None:
    """A stream in one chunk and in many gives the same frames, and keeps no more than one frame."""
    pieces = Pieces(data)
    limit = pieces.byte() * 4
    framer = Framer(limit)
    whole = _frames(framer, iter([pieces.rest]))
    kept = len(framer.held)
    if kept > len(pieces.rest):
        raise Wrong(f"{kept} bytes are kept of {len(pieces.rest)}")
    many = Framer(limit)
    same("in one chunk and in many", whole, _frames(many, cut(pieces.rest)))
    if whole[1] is None:
        same("bytes kept", framer.held, many.held)
        consumed = sum(4 + len(frame) for frame in whole[0])
        same("bytes accounted for", consumed + kept, len(pieces.rest))


def opening(data: bytes) -> None:
    """The same of a connection that may begin with Keeper's long handshake."""
    pieces = Pieces(data)
    limit = 32 + pieces.byte() * 4
    whole = _frames(OpeningFramer(limit), iter([pieces.rest]))
    same("in one chunk and in many", whole, _frames(OpeningFramer(limit), cut(pieces.rest)))


def handshake(data: bytes) -> None:
    """The first frame in both forms: what is read and written again is read the same."""
    for record, decode in ((records.CONNECT, decode_connect), (records.WIDE_CONNECT, decode_wide_connect)):
        try:
            first: Any = decode(data)
        except MalformedPacket:
            continue
        again = records.write(record, records.read(record, Cursor(data)))
        same("read again", decode(again), first)


_OPCODES = sorted(RECORDS)
# Writes whose fields are one record's, in its order.
_TWINS = EXTENDED.writes.keys() - {OpCode.MULTI, OpCode.RECONFIG, KeeperOpCode.CHECK_STAT}


def opcode_at(index: int) -> int:
    """A request's opcode by a byte of the input."""
    return _OPCODES[index % len(_OPCODES)]


def request(data: bytes) -> None:
    """A write's body: the decoder by hand agrees with the oracle, wherever the body begins."""
    opcode = opcode_at(data[0] if data else 0)
    packet = data[1:]
    operation = EXTENDED.writes.get(opcode)
    if operation is None:
        return
    found = _outcome(lambda: operation.decode(packet, 0))
    same(
        "behind other bytes", _shifted(found, 8), _outcome(lambda: operation.decode(b"8 before" + packet, 8))
    )
    if opcode in _TWINS:
        _compare(found, RECORDS[opcode], packet)


def _shifted(found: Any, by: int) -> Any:
    return found if isinstance(found, type) else (found[0], found[1] + by)


def _outcome(decode: Callable[[], Any]) -> Any:
    """The value, or the documented error's type."""
    try:
        return decode()
    except (NullString, NullAcl) as error:
        return type(error)
    except MalformedPacket:
        return MalformedPacket


def _compare(found: Any, record: Record, packet: bytes) -> None:
    """A write's fields, or its error, against what the oracle reads."""
    try:
        fields = list(records.read(record, Cursor(packet)).values())
    except UNREADABLE:
        same("an error", found, MalformedPacket)
        return
    if found is NullString:
        if fields[0] is not None:
            raise Wrong(f"NullString, but nothing is null: {fields}")
        return
    values = found[0] if type(found[0]) is tuple else (found[0],)
    for value, field in zip(values, fields, strict=False):
        if isinstance(field, tuple) and isinstance(value, tuple):
            field = tuple(Acl(perms, *map(_text, who)) for perms, *who in field)
        same("a field", value, field)


def _text(of_acl: str | None) -> str:
    return NO_TEXT if of_acl is None else of_acl


def primitives(data: bytes) -> None:
    """Jute's own types, in an order that the input says."""
    pieces = Pieces(data)
    order = pieces.piece()
    reader = Reader(pieces.rest)
    read = (reader.int, reader.long, reader.byte, reader.boolean, reader.buffer, reader.string)
    more = (reader.strings, reader.acls, reader.text, reader.count)
    methods: tuple[Callable[[], object], ...] = (*read, *more)
    for choice in order:
        methods[choice % len(methods)]()
        if not 0 <= reader.position <= len(pieces.rest):
            raise Wrong(f"the reader stands at {reader.position} of {len(pieces.rest)}")


def header(data: bytes) -> None:
    """A header of the PROXY protocol: its bytes alone say the same, and no part of them is one."""
    found = proxy_protocol.parse(data)
    if found is None:
        return
    if not 0 < found.length <= len(data):
        raise Wrong(f"a header of {found.length} bytes in {len(data)}")
    same("without what follows", proxy_protocol.parse(data[: found.length]), found)
    for end in range(min(found.length, 64)):
        same(f"its first {end} bytes", proxy_protocol.parse(data[:end]), None)


CLIENTS = (
    Target("framing", "A limit, then a connection's bytes.", framing, ()),
    Target("opening", "A limit, then a connection's first bytes.", opening, ()),
    Target("handshake", "A connect request.", handshake, ()),
    Target(
        "request", "A request's number in the table of opcodes, then its body.", request, (), bytes_each=4000
    ),
    Target("primitives", "Which types to read, then their bytes.", primitives, (MalformedPacket,)),
    Target("proxy-header", "What a balancer sends first.", header, (proxy_protocol.BadHeader,)),
)
