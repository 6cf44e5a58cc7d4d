"""What an operation is: the interface that the files in `ops/` fill.

A write is `decode`, `apply` in a transaction, `reply`; multi uses all three again. A read is one function on
the tree.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from proxy.state.auth.scheme import Identities
from proxy.state.pause import AtOnce, Pause
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


AT_ONCE = AtOnce()


class Reading(NamedTuple):
    """What a read works on."""

    tree: Tree
    watches: WatchTable
    # Found where the tree has nothing, but no part of it: what this server says of itself, as Keeper does.
    system: Mapping[str, Node]
    #: Refuses reads that take long, or lets them pause; nothing is applied meanwhile.
    pause: Pause = AT_ONCE


# (what it reads, the client, frame, position of the body) -> the reply's body. Raises Refusal and
# MalformedPacket; and TooLong, before it has set a watch or sent an event, if the pause refuses slow reads.
ReadOperation = Callable[[Reading, Client, bytes, int], bytes]


class WriteOperation(NamedTuple):
    """An operation that may change the tree."""

    # The request's fields, from a frame and the position where they begin, and the position behind them, for
    # they may be those of a part of a multi. Raises MalformedPacket.
    decode: Callable[..., tuple[Any, int]]
    # Evaluates the fields; the result is what `reply` needs. Raises Refusal.
    apply: Callable[[Transaction, Any], Any]
    # The body of the reply, called at once, before anything else changes, and only where a reply is wanted.
    reply: Callable[[Any], bytes]
    # The request consists of parts: `decode` takes a Pause too, and a long one is decoded when it is applied.
    has_parts: bool = False


class Operations(NamedTuple):
    """The requests that a server, or one of its connections, answers, by opcode."""

    reads: dict[int, ReadOperation]
    writes: dict[int, WriteOperation]
    extended: bool  # with Keeper's handshake and operations


def nothing(_result: object) -> bytes:
    """The body of a reply that has none."""
    return b""
