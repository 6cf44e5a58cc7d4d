"""The interface of an operation, which the files in `ops/` implement.

A write is `decode`, `apply` in a transaction, `reply`; multi uses all three again. A read is one function on
the tree. Each is one record with all that is known about the operation, except what only a sync has (it
counts no zxid, and may do without an entry), and only the end of a session (a full etcd takes it, too).
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from codec.errors import MalformedPacket
from codec.jute import Reader
from proxy.state.auth.scheme import Identities
from proxy.state.effect import Effect
from proxy.state.node import Node
from proxy.state.notifications import Watcher
from proxy.state.pause import NO_PAUSE, AtOnce, Pause
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree
from proxy.state.watches import WatchTable


class Client(Watcher, Protocol):
    """The connection that a read answers, as far as reads use it."""

    @property
    def identities(self) -> Identities:
        """The identities that the connection has proved."""

    knows_keeper: bool  # it has read which of Keeper's extensions this server has

    def local_session_closed(self) -> None:
        """The client has closed a session that only this server knows: close after the reply."""


AT_ONCE = AtOnce()


class Reading(NamedTuple):
    """The data that a read uses."""

    tree: Tree
    watches: WatchTable
    # Nodes outside the tree, found if the tree has no node there: as Keeper, the server describes itself.
    system: Mapping[str, Node]
    #: Refuses long reads, or lets them pause. Whether entries are applied meanwhile: `Sees`.
    pause: Pause = AT_ONCE


class Cost(enum.Flag):
    """What a request may cost besides its own bytes and those of its reply, which each request costs.

    The target `costs` of proof.fuzzing looks for requests that cost more: docs/decisions/0046-costs.md.
    """

    BYTES = 0  # nothing else
    #: The nodes that it changes, and the watch events of these.
    CHANGES = enum.auto()
    #: What it looks at in vain: nodes that are not in the reply. In slices.
    SEARCH = enum.auto()


class Holds(enum.Flag):
    """The content of a reply's body, in this order."""

    NOTHING = 0
    PATH = enum.auto()
    STAT = enum.auto()


# (what it reads, the client, frame, position of the body) -> the reply's body. Raises Refusal and
# MalformedPacket; and TooLong, before it has set a watch or sent an event, if the pause refuses slow reads.
AnswerRead = Callable[[Reading, Client, bytes, int], bytes]
# The same arguments -> how many steps it takes, about, as the state is now. Raises MalformedPacket.
CountSteps = Callable[[Reading, Client, bytes, int], int]

# (what it reads, the client, path) -> the result of a part of a multiRead. Raises Refusal.
AnswerPart = Callable[[Reading, Client, str], bytes]


class Sees(enum.Enum):
    """What a slow read has to see, so how long the log waits for it."""

    ONE_STATE = enum.auto()
    """Nothing is applied before it is answered."""
    NAMES = enum.auto()
    """The names that it packs are of one moment, at which they are copied: then the log goes on."""
    PIECES = enum.auto()
    """It needs no single state: the log may be applied between any two of its slices."""


class ReadPart(NamedTuple):
    """How a read is a part of a multiRead."""

    # Its fields, of which the first is the path. Raises NullString.
    decode: Callable[[Reader], tuple[Any, ...]]
    # (what it reads, its fields, the steps of the parts before it) -> with its own. May raise TooLong.
    expect: Callable[[Reading, Any, int], int]
    # As ZooKeeper answers it, from the path alone; None: it is a part in Keeper's form only.
    plain: AnswerPart | None = None


class ReadOperation(NamedTuple):
    """An operation that is answered from the tree of the client's own proxy."""

    answer: AnswerRead
    # Counted before a write after it is sent to the log. None: it is never slow, whatever the request is.
    steps: CountSteps | None = None
    # It is never answered in a run of reads, and leaves time for other clients.
    alone: bool = False
    sees: Sees = Sees.ONE_STATE
    cost: Cost = Cost.BYTES
    part: ReadPart | None = None
    # Its body begins with a path.
    has_path: bool = True
    # For operators: the end of its op_count_* among the metrics, and its name in `lop`, if it has one there.
    counted: str = ""
    word: str = ""


class DecodeWrite(Protocol):
    """Decodes the fields of a write, from a frame and the position where they begin."""

    def __call__(self, frame: bytes, position: int, pause: Pause = NO_PAUSE, /) -> tuple[Any, int]:
        """The fields, and the position after them, since they may belong to a part of a multi.

        Raises MalformedPacket; and TooLong if the pause refuses long work.
        """


class WriteOperation(NamedTuple):
    """An operation that may change the tree."""

    decode: DecodeWrite
    # Evaluates the fields; the result is what `reply` needs. Raises Refusal.
    apply: Callable[[Transaction, Any], Any]
    # Makes the body of the reply; called before the next change of the state, and only if a reply is needed.
    reply: Callable[[Any], bytes]
    # It can be a part of a multi; and it can be nothing else.
    part: bool = False
    only_part: bool = False
    # As a part, a create has one of these modes, or is looked at further (`ops.multi`). None: it has no mode.
    usual_modes: frozenset[int] | None = None
    # As a part, its mode is in the audit log (AuditHelper.logMultiOperation).
    audits_mode: bool = True
    # What `reply` returns, if it can be a part.
    holds: Holds = Holds.NOTHING
    # The request has an ACL, or parts that may have one.
    has_acl: bool = False
    cost: Cost = Cost.CHANGES
    effect: Effect = Effect.NOTHING
    # Its body begins with a path.
    has_path: bool = True
    # ZooKeeper validates the path, null or not (PrepRequestProcessor). For others it fails on a null path.
    path_checked_first: bool = False
    # An update to ZooKeeper's ServerStats.updateLatency: it has a transaction of its own.
    is_update: bool = True
    # Its name in the audit log, if it is there.
    audited: str = ""
    # As those of a read.
    counted: str = ""
    word: str = ""


class Operations:
    """The requests that a server, or one of its connections, answers, by opcode. Connections share one.

    Short reads are always answered in runs, those that are `alone` never, and the others while they take next
    to no steps: then only their replies may be large.
    """

    __slots__ = ("_pathless", "answers", "keeper", "light", "reads", "short", "writes")

    def __init__(
        self, reads: dict[int, ReadOperation], writes: dict[int, WriteOperation], *, keeper: bool
    ) -> None:
        """`keeper`: with Keeper's handshake and operations."""
        self.reads = reads
        self.writes = writes
        self.keeper = keeper
        #: How reads are answered, and those of them that may be in a run.
        self.answers: dict[int, AnswerRead] = {opcode: read.answer for opcode, read in reads.items()}
        self.light = {opcode: read.answer for opcode, read in reads.items() if not read.alone}
        #: Of the light ones, those that are never slow.
        self.short = frozenset(opcode for opcode in self.light if reads[opcode].steps is None)
        #: Those whose body does not begin with a path.
        rows: list[tuple[int, ReadOperation | WriteOperation]] = [*reads.items(), *writes.items()]
        self._pathless = frozenset(opcode for opcode, row in rows if not row.has_path)

    def path_in(self, opcode: int, packet: bytes, position: int) -> str | None:
        """The path in a packet whose body begins there; None if it has none, or it cannot be decoded."""
        if opcode in self._pathless:
            return None
        try:
            return Reader(packet, position).string()
        except MalformedPacket:
            return None

    @property
    def updates(self) -> dict[int, bool]:
        """Whether each is an update, by opcode."""
        return dict.fromkeys(self.reads, False) | {
            opcode: write.is_update for opcode, write in self.writes.items()
        }


def stat(node: Node) -> bytes:
    """The node's Stat, for replies that consist of it."""
    return node.stat()


def nothing(_result: object) -> bytes:
    """The empty body, for replies without one."""
    return b""
