"""What an operation is: the interface that the files in `ops/` fill.

A write is `decode`, `apply` in a transaction, `reply`; multi uses all three again. A read is one function on
the tree.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from proxy.state.auth.scheme import Identities
from proxy.state.pieces import Work
from proxy.state.transaction import Transaction
from proxy.state.tree import Node, Tree
from proxy.state.watches import Watcher, WatchTable


class Client(Watcher, Protocol):
    """What a read may know of the connection it answers."""

    @property
    def identities(self) -> Identities:
        """Who the connection has shown to be."""

    knows_keeper: bool  # it has read which of Keeper's extensions there are

    def local_session_closed(self) -> None:
        """The client has closed a session that only this server knows: close after the reply."""


class Reading(NamedTuple):
    """What a read works on."""

    tree: Tree
    watches: WatchTable
    # Found where the tree has nothing, but no part of it: what this server says of itself, as Keeper does.
    system: Mapping[str, Node]


# (what it reads, who asks, frame, position of the body) -> the reply's body. Raises Refusal, MalformedPacket,
# and Laborious, before it has set a watch, if there is a form in pieces.
ReadOperation = Callable[[Reading, Client, bytes, int], bytes]
# The same in pieces, on a state that stays as it is meanwhile.
LongRead = Callable[[Reading, Client, bytes, int], Work[bytes]]


class WriteOperation(NamedTuple):
    """An operation that may change the tree."""

    # The request's fields, from a frame and the position where they begin, and the position behind them, for
    # they may be those of a part of a multi. Raises MalformedPacket.
    decode: Callable[[bytes, int], tuple[Any, int]]
    # Evaluates the fields; the result is what `reply` needs. Raises Refusal, and Laborious.
    apply: Callable[[Transaction, Any], Any]
    # The body of the reply, called at once, before anything else changes, and only where a reply is wanted.
    reply: Callable[[Any], bytes]
    # `decode` and `apply` in pieces, where they can take long. Where there is the first, long requests are
    # decoded only when they are applied.
    decoding: Callable[[bytes, int], Work[tuple[Any, int]]] | None = None
    applying: Callable[[Transaction, Any], Work[Any]] | None = None


class Operations(NamedTuple):
    """The requests that a server, or one of its connections, answers, by opcode."""

    reads: dict[int, ReadOperation]
    writes: dict[int, WriteOperation]
    long_reads: Mapping[int, LongRead]
    extended: bool  # with Keeper's handshake and operations


def nothing(_result: object) -> bytes:
    """The body of a reply that has none."""
    return b""
