"""The form in which a connection moves to another process. Pure.

Each connection is one JSON list. Its socket is sent first. `FORM` is the version of all messages between two
processes of which one takes over from the other (`proxy.handover`).
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

#: Counts the changes of the form. A process takes over only from one of the same form.
FORM = 3

Paths = tuple[list[str], list[str], list[str], list[str]]


class Moved(NamedTuple):
    """One connection, without its socket."""

    session_id: int  # 0: the client has not asked for a session
    identities: list[tuple[str, str]]
    wire: int  # the form of its packets, an index of `wire.WIRES`
    knows_keeper: bool
    since: float  # when it was opened, in seconds since 1970
    received: int  # packets
    sent: int
    unhandled: bytes  # received, but not handled
    watches: Paths  # of data, of children, persistent, recursive


def encode(moved: Moved) -> Sequence[Any]:
    """The list."""
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
