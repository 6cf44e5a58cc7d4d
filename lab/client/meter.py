"""What a run has asked of a server, and how long it took. Pure: times are arguments."""

from collections import Counter

from codec.constants import KeeperOpCode, OpCode

#: Microseconds -> how often.
Latencies = Counter[int]


class Meter:
    """Requests by name, and the latency of each."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: the timed part begins."""
        self._counting = True
        self.requests: Counter[str] = Counter()  # sent, by the name of their type; a multi is one
        self.latencies: Latencies = Counter()  # of answered requests
        self.events = 0  # watch events that came

    def stop(self) -> None:
        """The timed part is over: what comes now does not count."""
        self._counting = False

    def sent(self, opcode: OpCode | KeeperOpCode) -> None:
        """A request leaves."""
        if self._counting:
            self.requests[opcode.name] += 1

    def answered(self, nanoseconds: int) -> None:
        """A request that took so long was answered, be it by an error."""
        if self._counting:
            self.latencies[nanoseconds // 1000] += 1

    def notified(self) -> None:
        """A watch event came."""
        if self._counting:
            self.events += 1
