"""How a connection moves to another process: packed by the old one, unpacked and continued by the new one.

Each connection is one JSON list. Its socket is sent first. `FORM` is the version of all messages between two
processes of which one takes over from the other (`proxy.handover`).
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

from proxy.frontend.connection import Connection
from proxy.frontend.replies import WIRES
from proxy.frontend.sessions import Session
from schema.entry import Identity

#: Counts the changes of the form. A process takes over only from one of the same form.
FORM = 3

Paths = tuple[list[str], list[str], list[str], list[str]]


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
    watches: Paths  # of data, of children, persistent, recursive


def mark(connection: Connection) -> object:
    """A value that changes whenever the result of `pack` changes; None if that cannot be known."""
    session = connection.session
    if session is None or connection.has_unhandled:
        return None
    watches = connection.services.context.reading.watches.count_of(connection)
    return session.heard, connection.inbound.count, connection.outbound.sent, watches


def pack(connection: Connection) -> Moved:
    """All that the new process needs besides the socket and the client's address."""
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
        connection.services.context.reading.watches.paths_of(connection),
    )


def unpack(connection: Connection, moved: Moved) -> None:
    """Make a new connection what the old process has packed; after `connection_made`, before `take_over`."""
    services, inbound = connection.services, connection.inbound
    connection.knows_keeper, connection.since = moved.knows_keeper, moved.since
    inbound.count, connection.outbound.sent = moved.received, moved.sent
    if moved.session_id:
        wire = connection.order.replies.wire = WIRES[moved.wire]
        inbound.continued(services.traces, wire, services.max_frame)
        connection.identity.identities = tuple(Identity(*each) for each in moved.identities)


def take_over(connection: Connection, moved: Moved, session: Session | None) -> None:
    """Continue where the old process has stopped; before `thaw`. `session`: None if the client has none."""
    connection.continued(session, moved.unhandled)
    if session is not None:
        connection.services.context.reading.watches.put(connection, moved.watches)


def encode(moved: Moved) -> Sequence[Any]:
    """The JSON list of a connection."""
    return moved._replace(unhandled=b64encode(moved.unhandled).decode())  # type: ignore[arg-type]


def decode(fields: Sequence[Any]) -> Moved:
    """The connection. Raises ValueError for anything that `encode` does not write."""
    try:
        moved = Moved(*fields)
        identities = [(str(scheme), str(name)) for scheme, name in moved.identities]
        data, children, persistent, recursive = moved.watches
        return moved._replace(
            identities=identities,
            unhandled=b64decode(moved.unhandled, validate=True),
            watches=(data, children, persistent, recursive),
        )
    except TypeError as error:
        raise ValueError(f"not a connection: {error}") from None
