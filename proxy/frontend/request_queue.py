"""The requests of one client that wait for their answers, and which writes may be sent to the log. Pure.

Each request has a weight: a write is sent only if the requests before it do not weigh too much (`limits`).
"""

from collections import deque
from itertools import islice

from proxy.frontend.waiting import UNKNOWN, Awaited, Item, ReadRun, Refused, Single, Waiting, Write, path_of
from proxy.frontend.wire import Wire

#: The weight of a request that no write may overtake.
BLOCKING = 1 << 30

# A client that sends more than this many requests without waiting is not read from until half are answered.
_MAX_QUEUE = 1000
_MAX_QUEUED_BYTES = 16 << 20


class RequestQueue:
    """The queue, whose head is answered next, with the count of its requests and bytes."""

    __slots__ = ("count", "in_log", "items", "size", "weight")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.count = 0  # requests
        self.size = 0  # their bytes
        # Writes that are in the log. If there are any, the head is one of them. The requests between them
        # have to be answered as the writes are applied.
        self.in_log = 0
        self.weight = 0  # of the requests after the last write in the log

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

    def add_write(self, write: Write) -> None:
        """Add a write that goes to the log."""
        self.items.append(write)
        self.in_log += 1
        self.weight = 0
        self.count += 1
        self.size += write.size

    def await_head(self, awaited: Awaited) -> None:
        """Put back a request that was taken from the head: all others wait for its answer."""
        self.items.appendleft(awaited)
        self.count += 1
        self.size += len(awaited.packet)

    def pop(self, size: int) -> None:
        """Remove the head, a request of so many bytes; for a write in the log use `pop_write`."""
        self.items.popleft()
        self.count -= 1
        self.size -= size

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
        self.in_log = self.count = self.size = self.weight = 0

    def first(self, most: int, wire: Wire) -> list[Waiting]:
        """The first requests, for operators; a run of reads counts as one."""
        found = []
        for item in islice(self.items, most):
            if isinstance(item, Write):
                found.append(Waiting(item.opcode, path_of(item.fields), item.zxid == UNKNOWN, item.received))
            elif isinstance(item, ReadRun):
                found.append(Waiting(wire.header(item.packets[0])[1], None, False, item.received))
            elif not isinstance(item, Refused):
                found.append(Waiting(item.opcode, None, False, item.received))
        return found
