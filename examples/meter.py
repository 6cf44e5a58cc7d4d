"""What a run has asked of a server, and how long it took. Pure: times are arguments."""

from collections import Counter

from codec.constants import OpCode

#: Microseconds -> how often.
Latencies = Counter[int]


class Meter:
    """Requests by name, and the latency of each."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: what is measured begins now."""
        self.requests: Counter[str] = Counter()  # sent, by the name of their type; a multi is one
        self.latencies: Latencies = Counter()  # of answered requests
        self.events = 0  # watch events that came
        self.sessions = 0  # opened

    def sent(self, opcode: OpCode) -> None:
        """A request leaves."""
        self.requests[opcode.name] += 1

    def answered(self, nanoseconds: int) -> None:
        """A request that took so long was answered, be it by an error."""
        self.latencies[nanoseconds // 1000] += 1
