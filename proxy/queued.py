"""What stands in the queue of a connection until it is answered. Data only; the rules are in `requests`."""

from typing import NamedTuple

from codec.constants import ErrorCode
from proxy.batch import Request
from proxy.operation import ReadOperation

# No zxid: a write is still with the committer.
UNTOLD = -1


class Write(Request):
    """A write of this connection, with the committer or told its end."""

    __slots__ = ("closes", "opcode", "received", "xid", "zxid")

    xid: int
    opcode: int
    closes: bool  # it is a closeSession
    received: int  # perf_counter_ns of its receipt
    zxid: int  # of its Txn; UNTOLD as long as the committer has not told its end


class Reads:
    """A run of reads of one kind, received together, that waits for its turn."""

    __slots__ = ("calls", "opcode", "operation", "overtaken", "place", "received")

    def __init__(self, opcode: int, operation: ReadOperation, received: int) -> None:
        self.opcode = opcode
        self.operation = operation
        self.received = received  # perf_counter_ns
        self.place = 0  # the runs of a connection are numbered from 1 up
        self.overtaken = False  # a write that came behind it is with the committer
        self.calls: list[tuple[int, bytes]] = []  # xid and packet


class Unreadable(NamedTuple):
    """A write that cannot be decoded, whose error waits for its turn."""

    xid: int
    code: ErrorCode
    size: int


class Waiting(NamedTuple):
    """A write that may not go to the committer yet, or anything else that no write overtakes."""

    xid: int
    opcode: int
    packet: bytes
    received: int  # perf_counter_ns of its receipt
    is_write: bool  # it goes to the committer
