"""Clients that write without pause and, when they lose their server, go on with their session at another.

As a ZooKeeper client library does. A write that got no answer may count or not; all others must be there,
once and in order. Each client also has an ephemeral node, which must be there as long as the session.
"""

import time
from collections.abc import Callable, Sequence

from lab.client.blocking import EPHEMERAL, LONG_MS, Client, Disconnected
from tests.faults.workers import Worker, Workers

_PATIENCE_S = 60.0


class Roamer(Worker):
    """One client."""

    def __init__(self, ports: Callable[[], Sequence[int]], number: int, timeout_ms: int) -> None:
        """`ports`: those of the proxies that may be there now."""
        super().__init__(Client(ports()[number % len(ports())], timeout_ms), f"/roamer-{number}")
        self._ports = ports
        self._number = number
        self.ephemeral = f"/alive-{number}"
        self.client.create(self.ephemeral, mode=EPHEMERAL)
        self.version = 0
        self.moves = 0
        self.longest = 0.0  # seconds that a write took, a change of the proxy included
        self.last_answer = time.monotonic()

    def work(self) -> None:
        """Write the own node."""
        began = time.monotonic()
        zxid = self.client.zxid
        try:
            stat = self.client.write(self.own, b"%d" % self.rounds, self.version)
        except (Disconnected, OSError):
            self._move()
        else:
            assert stat.version == self.version + 1
            assert stat.mzxid == self.client.zxid > zxid, "the reply has the zxid of its own write"
            self.version = stat.version
            self.rounds += 1
        self.last_answer = time.monotonic()
        self.longest = max(self.longest, self.last_answer - began)

    def _move(self) -> None:
        """Go on at the next proxy that lets the session in."""
        self.client.drop()
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            ports = self._ports()
            self.moves += 1
            try:
                self.client.reconnect(ports[(self._number + self.moves) % len(ports)])
                self.client.sync()
                stat = self.client.stat(self.own)
                owner = self.client.owner(self.ephemeral)
            except (Disconnected, OSError) as error:
                if isinstance(error, Disconnected) and error.expired:
                    raise AssertionError(f"the session of {self.own} has expired") from error
                if time.monotonic() > deadline:
                    raise AssertionError(f"nobody lets the session of {self.own} in") from error
                time.sleep(0.05)
                continue
            assert stat is not None
            assert stat.version in (self.version, self.version + 1), f"{self.own}: writes lost or doubled"
            assert owner == self.client.id, f"{self.ephemeral} is gone, and its session lives"
            self.version = stat.version
            return


class Roamers(Workers[Roamer]):
    """Clients at work from the beginning of the `with` to `verify`."""

    def __init__(
        self, ports: Callable[[], Sequence[int]], *, count: int = 6, timeout_ms: int = LONG_MS
    ) -> None:
        super().__init__([Roamer(ports, number, timeout_ms) for number in range(count)])
        self._ports = ports

    @property
    def longest(self) -> float:
        """Seconds of the longest write."""
        return max(roamer.longest for roamer in self.each)

    @property
    def moves(self) -> int:
        """How often clients went to another proxy, or tried to."""
        return sum(roamer.moves for roamer in self.each)

    def progress(self, rounds: int = 5, timeout: float = 60.0) -> None:
        """Wait until everyone has done so many more writes."""
        super().progress(rounds, timeout)

    def verify(self) -> None:
        """Let all finish, and hold the tree at every proxy against what they were told."""
        self.finish()
        for port in self._ports():
            with Client(port) as client:
                client.sync()
                for roamer in self.each:
                    stat = client.stat(roamer.own)
                    assert stat is not None
                    assert stat.version == roamer.version
                    assert client.owner(roamer.ephemeral) == roamer.client.id
