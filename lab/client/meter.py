"""What a run has asked of a server. Pure."""

from collections import Counter

from codec.constants import KeeperOpCode, OpCode


class Meter:
    """Requests by name."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: what counts begins."""
        self._counting = True
        self.requests: Counter[str] = Counter()  # sent, by the name of their type; a multi is one

    def stop(self) -> None:
        """What comes now does not count."""
        self._counting = False

    def sent(self, opcode: OpCode | KeeperOpCode) -> None:
        """A request leaves."""
        if self._counting:
            self.requests[opcode.name] += 1
