"""The requests of one client that wait for their answers, and which writes may be sent to the log. Pure.

Each kind of request in the queue has a class here; the rules for each are in `order`. A request has a weight:
a write is sent only if the requests before it do not weigh too much (`Limits`).
"""

from collections import deque
from typing import Any, NamedTuple, TypeAlias

from codec.constants import ErrorCode
from codec.errors import MalformedPacket
from codec.jute import INT, Reader
from proxy.log.append.pending import Callback, Pending
from proxy.state.auth.schemes import SCHEMES
from proxy.state.ops import EXTENDED
from proxy.traces.span import Decision
from schema.entry import Identities, Kind

#: The zxid of a write whose outcome is not known yet.
UNKNOWN = -1

_CLIENT = int(Kind.CLIENT)  # a plain number: looking up an enum's member costs more than all the rest
#: The weight of a request that no write may overtake.
BLOCKING = 1 << 30

_AUTH = INT.pack(4) + b"auth"
_AUTH_ENTRY = 16  # bytes of such an entry in a request

# A client that sends more than this many requests without waiting is not read from until half are answered.
_MAX_QUEUE = 1000
_MAX_QUEUED_BYTES = 16 << 20


class ClientInfo:
    """What the server knows of a client."""

    __slots__ = ("address", "identities", "port", "session_id")

    def __init__(self, address: str = "", session_id: int = 0) -> None:
        """`session_id`: 0 while there is no session."""
        self.address = address
        self.port = 0  # on the client's side
        self.session_id = session_id
        self.identities: Identities = ()  # those that it has proved


class Marked(bytes):
    """A packet whose request is traced."""

    received: int  # nanoseconds
    decision: Decision


class Write(Pending):
    """A write of this connection, in the log or on its way there."""

    __slots__ = ("err", "marked", "received", "reply", "size", "xid", "zxid")

    err: int  # like `reply`, set only if the outcome is known before this write is at the head
    reply: bytes

    # Eight parameters: a value that has some of them would be one more object for each write.
    def __init__(
        self,
        callback: Callback,
        client: ClientInfo,
        xid: int,
        opcode: int,
        packet: bytes,
        position: int,
        fields: Any,
        received: int,
    ) -> None:
        """`position`: where the body begins in the packet. `fields`: the body decoded, None if not yet."""
        # Set here instead of by Pending.__init__, which would be one more call for each write.
        self.kind = _CLIENT
        self.session_id = client.session_id
        self.opcode = opcode
        self.identities = client.identities
        self.body = packet[position:]
        self.fields = fields
        self.callback = callback  # `Connection.take_outcome`
        self.xid = xid
        self.size = len(packet)
        self.marked = packet if type(packet) is Marked else None  # the packet, if the write is traced
        self.received = received  # nanoseconds
        self.zxid = UNKNOWN


class ReadRun:
    """Light reads that were received together, one after the other."""

    __slots__ = ("packets", "received")

    def __init__(self, packet: bytes, received: int) -> None:
        self.packets = [packet]
        self.received = received


class Refused(NamedTuple):
    """A write that cannot be decoded. Its error is sent when it is at the head."""

    xid: int
    code: ErrorCode
    size: int


class Held(NamedTuple):
    """A write that may not be sent to the log before the requests before it are answered."""

    xid: int
    opcode: int
    packet: bytes
    received: int


class Single(NamedTuple):
    """A heavy read, or a request that concerns only the connection."""

    xid: int
    opcode: int
    packet: bytes
    received: int
    weight: int  # for a write after it, see `RequestQueue`


class AwaitedRead(NamedTuple):
    """The read at the head of the queue, which is answered in slices: `Order.answer_slow_read`."""

    xid: int
    opcode: int
    packet: bytes
    received: int


class AwaitedToken(NamedTuple):
    """The SASL token at the head of the queue, whose answer a thread makes: `Order.negotiated`."""

    xid: int
    opcode: int
    packet: bytes
    received: int


#: A request with its packet.
Received: TypeAlias = Held | Single | AwaitedRead | AwaitedToken
Item: TypeAlias = Write | ReadRun | Refused | Received


class AuthEntries:
    """Whether the ACLs of a client's writes get too many bytes of identities for `auth`.

    Each `auth` stands for all identities that the client has proved, at every proxy, and in every snapshot.
    """

    __slots__ = ("_identities", "_least", "_per_byte", "_size")

    def __init__(self, least: int, per_byte: int) -> None:
        """A write may get `least` bytes, and `per_byte` times its own."""
        self._least = least
        self._per_byte = per_byte
        self._identities: Identities = ()
        self._size = 0  # bytes of what one `auth` stands for

    def are_too_much(self, packet: bytes, identities: Identities) -> bool:
        """Whether those in this write are."""
        if identities is not self._identities:
            self._identities, self._size = identities, size_for_auth(identities)
        # Few short identities are never too much: then even a write of 1 MiB need not be searched.
        return (
            self._size > self._per_byte * _AUTH_ENTRY
            and self._size * len(packet) // _AUTH_ENTRY > self._least
            and self._size * packet.count(_AUTH) > max(self._least, self._per_byte * len(packet))
        )


def size_for_auth(identities: Identities) -> int:
    """Characters of what an entry of an ACL with `auth` stands for."""
    return sum(
        len(scheme) + len(name)
        for scheme, name in identities
        if (known := SCHEMES.get(scheme)) is not None and known.proves
    )


class Waiting(NamedTuple):
    """The data of an item in the queue that operators see."""

    opcode: int
    path: str | None  # None if it has none, or is not decoded yet
    in_log: bool  # it waits for the log, not for the requests before it
    received: int  # nanoseconds


def path_in(opcode: int, packet: bytes, position: int) -> str | None:
    """The path in a packet whose body begins at `position`; None if it has none, or it cannot be decoded."""
    if opcode in EXTENDED.pathless:
        return None
    try:
        return Reader(packet, position).string()
    except MalformedPacket:
        return None


class SaslAnswer(NamedTuple):
    """The answer to one token of SASL. With an error it is the last packet of the connection."""

    err: int
    token: bytes | None
    is_sent: bool = True  # False: the connection ends without it


class RequestQueue:
    """The queue, whose head is answered next, with the count of its requests and bytes."""

    __slots__ = ("count", "heavy", "in_log", "items", "size", "weight")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.count = 0  # requests
        self.size = 0  # their bytes
        # Writes that are in the log, or on their way there. If there are any, the head is one of them or a
        # slow read. The requests between them have to be answered as the writes are applied.
        self.in_log = 0
        self.weight = 0  # of the requests after the last write in the log
        self.heavy = 0  # the weight of all single requests

    @property
    def is_long(self) -> bool:
        """Whether too much waits to read more from the client."""
        return self.count >= _MAX_QUEUE or self.size >= _MAX_QUEUED_BYTES

    @property
    def has_room(self) -> bool:
        """Whether a client that was not read from because of `is_long` may be read from again."""
        return self.count <= _MAX_QUEUE // 2 and self.size < _MAX_QUEUED_BYTES

    def add_read(self, packet: bytes, received: int) -> None:
        """Add a light read."""
        items = self.items
        last = items[-1] if items else None
        if type(last) is ReadRun and last.received == received:
            last.packets.append(packet)
        else:
            items.append(ReadRun(packet, received))
        self.weight += 1
        self.count += 1
        self.size += len(packet)

    def add(self, item: Item, size: int, weight: int) -> None:
        """Add any other request except a write in the log."""
        self.items.append(item)
        self.weight += weight
        self.count += 1
        self.size += size

    def add_single(self, item: Single, most: int) -> None:
        """Add a heavy read, or a request that concerns only the connection. `most`: in all before a write."""
        self.heavy += item.weight
        self.add(item, len(item.packet), item.weight if self.heavy <= most else BLOCKING)

    def add_write(self, write: Write) -> None:
        """Add a write that goes to the log."""
        self.items.append(write)
        self.in_log += 1
        self.weight = 0
        self.count += 1
        self.size += write.size

    def await_head(self, awaited: AwaitedRead | AwaitedToken) -> None:
        """Put back a request that was taken from the head: all others wait for its answer."""
        self.items.appendleft(awaited)
        self.count += 1
        self.size += len(awaited.packet)

    def pop(self, size: int) -> None:
        """Remove the head, a request of so many bytes; there are other methods for some kinds."""
        self.items.popleft()
        self.count -= 1
        self.size -= size

    def pop_single(self, item: Single) -> None:
        """Remove the head, which is this one."""
        self.pop(len(item.packet))
        self.heavy -= item.weight

    def pop_write(self, write: Write) -> None:
        """Remove the head, a write that the log has applied or refused."""
        self.items.popleft()
        self.in_log -= 1
        self.count -= 1
        self.size -= write.size

    def pop_reads(self, run: ReadRun, count: int) -> None:
        """Remove the first reads of the head, which is a run."""
        packets = run.packets
        self.count -= count
        if count == len(packets):
            self.items.popleft()
            self.size -= sum(map(len, packets))
        else:
            self.size -= sum(map(len, packets[:count]))
            del packets[:count]

    def weight_of(self, item: Item) -> int:
        """How much this item adds to the weight that a later write would overtake."""
        if not self.in_log:
            return BLOCKING
        if isinstance(item, ReadRun):
            return len(item.packets)
        if isinstance(item, Single):
            return item.weight
        return 0 if isinstance(item, Refused | Write) else BLOCKING

    def clear(self) -> None:
        """Remove all requests."""
        self.items.clear()
        self.in_log = self.count = self.size = self.weight = self.heavy = 0
