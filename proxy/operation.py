"""What an operation is: the interface that the files in `ops/` fill and the connection and batch call.

Pure. A write is `decode`, `apply` on a draft, `reply` once the zxid is known; multi reuses all three. A read
is one function on the mirror's tree.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from proxy.acl import Caller
from proxy.auth.scheme import Identity
from proxy.draft import Draft
from proxy.tree import Tree
from proxy.watches import Watcher, WatchTable


class Client(Watcher, Protocol):
    """What a read may know of the connection it answers."""

    @property
    def identities(self) -> tuple[Identity, ...]:
        """Who the connection has shown to be."""

    knows_keeper: bool  # it has read which of Keeper's extensions there are

    def farewell(self) -> None:
        """The client has closed a session that no other server knows of: close after the reply."""


class Reading(NamedTuple):
    """What a read works on."""

    tree: Tree
    watches: WatchTable


# (what it reads, who asks, frame, position of the body) -> the reply's body. Raises Refusal, MalformedPacket.
ReadOperation = Callable[[Reading, Client, bytes, int], bytes]


class Operations(NamedTuple):
    """The requests that a server, or one of its connections, answers, by opcode."""

    reads: dict[int, ReadOperation]
    writes: dict[int, "WriteOperation"]
    extended: bool  # with Keeper's handshake and operations


class WriteOperation(NamedTuple):
    """An operation that may change the tree."""

    # The request's fields, from a frame and the position where they begin, and the position behind them, for
    # they may be those of a part of a multi. Raises MalformedPacket.
    decode: Callable[[bytes, int], tuple[Any, int]]
    # Evaluates the fields on the draft; the result is what `reply` needs. Raises Refusal and Held.
    apply: Callable[[Draft, Caller, Any], Any]
    # The body of the reply, given the result and the zxid of its Txn.
    reply: Callable[[Any, int], bytes]
    # Whether `apply` checks all before it changes anything, and puts no more than it was sent: then there is
    # nothing to undo in a batch with room enough.
    checks_first: bool = True
