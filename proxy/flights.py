"""What is under way: the sessions' queues of writes, the lanes, and the flights: batches on the way to etcd.

Records, and what follows from themselves alone: who makes, moves and ends them is the committer. Pure.
"""

import enum
from collections import deque

from proxy.batch import Batch, Request
from proxy.draft import Entry

QUANTUM = 64  # requests of one session before another has its turn

Outcome = tuple[int, list[bool]]
"""Of a Txn that was applied: its revision, and which of its components were."""


class State(enum.Enum):
    """What becomes of a session's next write."""

    IDLE = "nothing to do"
    READY = "waits for a Txn to be formed"
    BUSY = "has requests in a Txn in flight"
    WAITING = "waits for a Txn in flight that holds its path, or for a pause after a lost race"


class Queue:
    """The writes of one session, in order."""

    __slots__ = ("held", "left", "quick", "requests", "session_id", "state")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.requests: deque[Request] = deque()
        self.held = 0  # times in a row that it had to wait for a path
        self.quick = 0  # times in a row that it came with a write at once after the answer of the last
        self.left = 0.0  # when its last write was answered, in seconds
        self.state = State.IDLE


class Lane:
    """One marker key; at most one Txn in flight uses it."""

    __slots__ = ("key", "mod", "serial")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.mod = 0  # 0: to be opened before use
        self.serial = 0

    def next_value(self, what: str) -> bytes:
        """A marker value that no other Txn of this lane has."""
        self.serial += 1
        return f"{what} {self.serial}".encode()


class Flight:
    """A batch under way: its lane, its sessions and who waits for it."""

    __slots__ = (
        "answered",
        "batch",
        "changed",
        "claimed",
        "ended",
        "history",
        "lane",
        "marker",
        "next",
        "own",
        "passed",
        "queues",
        "quick",
        "result",
        "sent",
        "since",
        "value",
        "waiting",
    )

    def __init__(self, batch: Batch, lane: Lane, queues: list[Queue]) -> None:
        self.batch = batch
        self.changed = batch.changed_paths()
        self.lane = lane
        self.queues = queues
        self.quick = 0  # of its sessions, those that come back at once
        self.waiting: list[Queue] = []
        self.next: Batch | None = None  # evaluated as if this one had been applied
        self.claimed: dict[Queue, None] = {}  # sessions with requests in it
        self.passed: set[Queue] = set()  # sessions whose next request cannot be evaluated so
        self.marker = lane.key
        self.value = b""  # what its Txn puts at the lane's marker
        self.own: dict[bytes, Entry] = {}  # what it puts at the keys of nodes
        self.history: object = None  # see Outcomes.history
        self.sent = 0.0  # time.monotonic()
        self.answered = 0.0  # time.monotonic() of the RPC's answer
        self.since = 0  # the mirror's revision when its Txn was sent
        self.ended = False  # answered; the RPC may still be under way
        self.result: Outcome | None = None

    def lost_in(self, history: object) -> bool:
        """Whether its answer, if there is one, comes from an etcd whose history is not this one."""
        # An answer from before the mirror's revision of that time comes from the restored etcd itself.
        return self.history != history and self.result is not None and self.result[0] > self.since

    @property
    def is_steady(self) -> bool:
        """Whether it is likely to be applied as it is."""
        first = self.batch.requests[0]
        return not (self.batch.wide or first.solo or first.attempts)

    def over(self) -> bool:
        """Whether it has ended; by its events, that happens while its RPC is still under way."""
        return self.ended
