"""A client's whole connection on the tests' transport of paper: framing, order, reads, writes, replies.

A stream of requests in one chunk and in many gets the same replies. What follows no rule at all ends the
connection, and nothing else.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from codec.jute import INT
from codec.packets import REQUEST_HEADER
from lab.fakes.connection import Client, established
from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.clients import opcode_at
from proof.fuzzing.targets.pieces import Pieces, cut, same

WIDE_HEADER = Struct(">qi")  # of a client that has asked for 64-bit xids
# Keeper's handshake of version 11: the last byte is behind what the length in front of it counts.
KEEPERS_HANDSHAKE = INT.pack(45) + INT.pack(11) + bytes(24) + INT.pack(16) + bytes(17) + b"\0"
# The first byte of an input. Its other bytes come before a session is there, behind it, or are requests, of a
# ZooKeeper client or one of Keeper; or they begin with the handshake of a session that is granted.
OPENING, NOISE, REQUESTS, KEEPER, GRANTED = range(5)
_KINDS = 5
_MOST_REQUESTS = 60
# Entries that the log may need for what a client has sent: some writes wait for what is before them.
_MOST_ENTRIES = 2 * _MOST_REQUESTS


def connection(data: bytes) -> None:
    """Bytes of one of these kinds, in one chunk and in many.

    The clock stands still: what has taken long is put off to the next turn, and a broken length behind it may
    end the connection before that.
    """
    kind, rest = (data[0] if data else 0) % _KINDS, data[1:]
    if kind == OPENING:
        same("of a new connection", _played(Client(), [rest]), _played(Client(), cut(rest)))
    elif kind == GRANTED:
        whole, many = (_played(Client(), chunks, grant=True) for chunks in ([rest], cut(rest)))
        if not whole.sent and whole.is_closed and many.is_closed:
            return  # what follows the handshake ends the connection, perhaps before the session is there
        same("of a connection with its session", whole, many)
    elif kind == KEEPER:
        stream = _requests(rest, WIDE_HEADER)
        same("replies", _played(_keepers(), [stream]), _played(_keepers(), cut(stream)))
    else:
        stream = rest if kind == NOISE else _requests(rest, REQUEST_HEADER)
        same("replies", _played(established(), [stream]), _played(established(), cut(stream)))


def _keepers() -> Client:
    """A client of ClickHouse Keeper with a session."""
    client = Client()
    client.send(KEEPERS_HANDSHAKE)
    client.establish()
    return client


def _requests(data: bytes, header: Struct) -> bytes:
    """Each a byte for the opcode and the body as a piece."""
    pieces, stream = Pieces(data), b""
    for xid in range(_MOST_REQUESTS):
        if not pieces.rest:
            break
        opcode = opcode_at(pieces.byte())
        packet = header.pack(xid, opcode) + pieces.piece()
        stream += INT.pack(len(packet)) + packet
    return stream


class _Played(NamedTuple):
    """The end of a client."""

    sent: bytes
    is_closed: bool
    asked: int  # for a session


def _played(client: Client, chunks: Iterable[bytes], *, grant: bool = False) -> _Played:
    """Send the chunks, and apply what they ask for. `grant`: each request for a session is granted."""
    client.host.clock.step = 0.0
    for chunk in chunks:
        if client.transport.is_closed():
            break
        client.send(chunk)
        if grant and client.connection.wants_session:
            client.establish()
    for _ in range(_MOST_ENTRIES):
        if not client.host.pending:
            break
        client.commit()
    else:
        raise Wrong(f"{len(client.host.pending)} requests still come after {_MOST_ENTRIES} entries")
    sent, closed = b"".join(client.transport.writes), client.transport.is_closed()
    client.lose()
    client.commit()
    if len(client.host.connections):
        raise Wrong("the connection is still counted")
    return _Played(sent, closed, len(client.host.attached))


CONNECTION = (
    Target(
        "connection",
        "Which kind, then a connection's bytes or requests.",
        connection,
        (),
        bytes_each=20_000,
        fixed_bytes=8 << 20,
    ),
)
