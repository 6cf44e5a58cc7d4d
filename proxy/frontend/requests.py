"""The requests of one client that wait for their answers, and which writes may be sent to the log. Pure.

Each kind of request in the queue has a class here; the rules for each are in `order`. A request has a weight:
a write is sent only if the requests before it do not weigh too much (`Limits`).
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from codec.constants import ErrorCode
from proxy.frontend.client_info import ClientInfo
from proxy.log.append.pending import Callback, Pending
from proxy.traces.span import Decision
from schema.entry import Kind

#: The zxid of a write whose outcome is not known yet.
UNKNOWN = -1

_CLIENT = int(Kind.CLIENT)  # a plain number: looking up an enum's member costs more than all the rest
#: The weight of a request that no write may overtake.
BLOCKING = 1 << 30

# A client that sends more than this many requests without waiting is not read from until half are answered.
_MAX_QUEUE = 1000
_MAX_QUEUED_BYTES = 16 << 20


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
        info: ClientInfo,
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
        self.session_id = info.session_id
        self.opcode = opcode
        self.identities = info.identities
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
    """A write that cannot be decoded, or has too many identities. Its error is sent at the head."""

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


class Waiting(NamedTuple):
    """The data of an item in the queue that operators see."""

    opcode: int
    path: str | None  # None if it has none, or is not decoded yet
    in_log: bool  # it waits for the log, not for the requests before it
    received: int  # nanoseconds


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
        """Add a heavy read, or a request that concerns only the connection. `most`: `ahead_in_all`."""
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

    def count_kept(self, count: int, size: int) -> None:
        """Count requests that are kept elsewhere, and their bytes; less than 0: that have left there."""
        self.count += count
        self.size += size

    def send_held(
        self, make: Callable[[int, int, bytes, int, int], Write | Refused], most: int, most_in_all: int
    ) -> None:
        """Replace held writes, the head first, by what `make` makes of them, up to one that has to wait.

        `make` gets the fields of a write, and how many bytes the writes made before it have. `most` and
        `most_in_all`: `Limits.ahead` and `ahead_in_all`.
        """
        self.weight = heavy = made = 0
        for place, item in enumerate(self.items):
            if not isinstance(item, Held):
                self.weight += self._weight_of(item)
                heavy += item.weight if isinstance(item, Single) else 0
            elif self.weight > most or heavy > most_in_all:
                self.weight = BLOCKING
                return
            else:
                self.items[place] = write = make(*item, made)
                made += len(item.packet)
                if isinstance(write, Write):
                    self.in_log += 1
                    self.weight = 0

    def _weight_of(self, item: Item) -> int:
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
