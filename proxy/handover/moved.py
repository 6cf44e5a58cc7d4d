"""How a connection moves to another process: packed by the old one, unpacked and continued by the new one.

Each connection is one JSON list. Its socket is sent first. Its watches may be very many: they follow in
parts, so that no message holds a process for long. `FORM` is the version of all messages between two
processes of which one takes over from the other (`proxy.handover`).
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from proxy.frontend.connection import Connection
from proxy.frontend.replies import WIRES
from proxy.state.watches import Paths, WatchTable
from schema.entry import Identity

#: Counts the changes of the form. A process takes over only from one of the same form.
FORM = 4

# Characters of the paths of one message, about, and what a path counts besides.
_MOST_CHARACTERS = 256 << 10
_OF_A_PATH = 32


class Change(NamedTuple):
    """Watches that a connection has besides those that were sent, or that it has no longer."""

    number: int  # the connection's
    is_added: bool
    paths: Paths


class Moved(NamedTuple):
    """One connection, without its socket."""

    session_id: int  # 0: the client has not asked for a session
    identities: list[tuple[str, str]]
    wire: int  # the form of its packets, an index of `replies.WIRES`
    knows_keeper: bool
    since: float  # when it was opened, in seconds since 1970
    received: int  # packets
    sent: int
    unhandled: bytes  # received, but not handled


def mark(connection: Connection) -> object:
    """A value that changes whenever the result of `pack` changes; None if that is not known."""
    inbound = connection.inbound
    if connection.session is None or connection.has_unhandled:
        return None
    # Until a packet is complete, or the counts are reset, the bytes of an incomplete one only become more.
    return inbound.count, len(inbound.framer.held), connection.outbound.sent, connection.resets


def pack(connection: Connection) -> Moved:
    """All that the new process needs besides the socket, the client's address and its watches."""
    session = connection.session
    return Moved(
        0 if session is None else session.id,
        [(each.scheme, each.id) for each in connection.identities] if session is not None else [],
        WIRES.index(connection.order.replies.wire),
        connection.knows_keeper,
        connection.since,
        connection.inbound.count,
        connection.outbound.sent,
        connection.inbound.unhandled(),
    )


def unpack(connection: Connection, moved: Moved) -> None:
    """Make a new connection what the old process has packed; between `connection_made` and `continued`."""
    services, inbound = connection.services, connection.inbound
    connection.knows_keeper, connection.since = moved.knows_keeper, moved.since
    inbound.count, connection.outbound.sent = moved.received, moved.sent
    if moved.session_id:
        wire = connection.order.replies.wire = WIRES[moved.wire]
        inbound.continued(services.traces, wire, services.max_frame)
        connection.identity.identities = tuple(Identity(*each) for each in moved.identities)


def in_parts(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes for one message after another."""
    parts: list[Change] = []
    size = 0
    for number, is_added, watches in changes:
        part: list[list[str]] = []
        for kind, paths in enumerate(watches):
            for path in paths:
                if not part:
                    part = [[], [], [], []]
                    parts.append(Change(number, is_added, part))
                part[kind].append(path)
                size += len(path) + _OF_A_PATH
                if size > _MOST_CHARACTERS:
                    yield parts
                    parts, part, size = [], [], 0
    if parts:
        yield parts


def apply_part(
    changes: Iterable[Sequence[Any]], connections: Sequence[Connection], table: WatchTable
) -> None:
    """Apply what one of `in_parts` has, to these connections by their numbers. Raises ValueError."""
    try:
        for number, is_added, paths in changes:
            table.change(connections[number], paths, are_added=is_added)
    except (TypeError, IndexError) as error:
        raise ValueError(f"not a change of watches: {error}") from None


def encode(moved: Moved) -> Sequence[Any]:
    """The JSON list of a connection."""
    return moved._replace(unhandled=b64encode(moved.unhandled).decode())  # type: ignore[arg-type]


def decode(fields: Sequence[Any]) -> Moved:
    """The connection. Raises ValueError for anything that `encode` does not write."""
    try:
        moved = Moved(*fields)
        identities = [(str(scheme), str(name)) for scheme, name in moved.identities]
        return moved._replace(identities=identities, unhandled=b64decode(moved.unhandled, validate=True))
    except TypeError as error:
        raise ValueError(f"not a connection: {error}") from None
