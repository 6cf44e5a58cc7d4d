"""Clients that write without pause and, when they lose their server, go on with their session at another.

As a ZooKeeper client library does. A write that got no answer may count or not; all others must be there,
once and in order. Each client also has an ephemeral node, which must be there as long as the session.
"""

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from tests.faults.client import EPHEMERAL, LONG_MS, Client, Disconnected
from tests.harness import wait_until

_PATIENCE_S = 60.0


class Roamer:
    """One client in a thread of its own."""

    def __init__(self, ports: Callable[[], Sequence[int]], number: int, timeout_ms: int) -> None:
        """`ports`: those of the proxies that may be there now."""
        self._ports = ports
        self._number = number
        self.own = f"/roamer-{number}"
        self.ephemeral = f"/alive-{number}"
        self.client = Client(ports()[number % len(ports())], timeout_ms)
        self.client.create(self.own)
        self.client.create(self.ephemeral, mode=EPHEMERAL)
        self.version = 0
        self.writes = 0
        self.moves = 0
        self.longest = 0.0  # seconds that a write took, a change of the proxy included
        self.last_answer = time.monotonic()
        self.failure: BaseException | None = None
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self.stopping:
                self._write()
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            if not self.stopping:
                self.failure = failure

    def _write(self) -> None:
        began = time.monotonic()
        zxid = self.client.zxid
        try:
            stat = self.client.write(self.own, b"%d" % self.writes, self.version)
        except (Disconnected, OSError):
            self._move()
        else:
            assert stat.version == self.version + 1
            assert stat.mzxid == self.client.zxid > zxid, "the reply has the zxid of its own write"
            self.version = stat.version
            self.writes += 1
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
                alive = self.client.stat(self.ephemeral)
            except (Disconnected, OSError) as error:
                if "id=0" in str(error):
                    raise AssertionError(f"the session of {self.own} has expired") from error
                if time.monotonic() > deadline:
                    raise AssertionError(f"nobody lets the session of {self.own} in") from error
                time.sleep(0.05)
                continue
            assert stat is not None
            assert stat.version in (self.version, self.version + 1), f"{self.own}: writes lost or doubled"
            assert alive is not None, f"{self.ephemeral} is gone, and its session lives"
            assert alive.ephemeral_owner == self.client.id
            self.version = stat.version
            return


class Roamers:
    """Clients at work from the beginning of the `with` to `verify`."""

    def __init__(
        self, ports: Callable[[], Sequence[int]], *, count: int = 6, timeout_ms: int = LONG_MS
    ) -> None:
        self._ports = ports
        self.each = [Roamer(ports, number, timeout_ms) for number in range(count)]

    def __enter__(self) -> Self:
        for roamer in self.each:
            roamer.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for roamer in self.each:
            roamer.stopping = True
            roamer.client.drop()

    @property
    def longest(self) -> float:
        """Seconds of the longest write."""
        return max(roamer.longest for roamer in self.each)

    @property
    def moves(self) -> int:
        """How often clients went to another proxy, or tried to."""
        return sum(roamer.moves for roamer in self.each)

    def progress(self, writes: int = 5, timeout: float = 60.0) -> None:
        """Wait until everyone has done so many more writes."""
        before = [roamer.writes for roamer in self.each]

        def moved() -> bool:
            self._raise_failure()
            return all(roamer.writes >= done + writes for roamer, done in zip(self.each, before, strict=True))

        wait_until(moved, "writes of every client", timeout=timeout)

    def verify(self) -> None:
        """Let all finish, and hold the tree at every proxy against what they were told."""
        for roamer in self.each:
            roamer.stopping = True
        for roamer in self.each:
            roamer.thread.join(_PATIENCE_S)
            assert not roamer.thread.is_alive(), f"a reply is missing for {roamer.own}"
        self._raise_failure()
        for port in self._ports():
            with Client(port) as client:
                client.sync()
                for roamer in self.each:
                    stat = client.stat(roamer.own)
                    assert stat is not None
                    assert stat.version == roamer.version
                    alive = client.stat(roamer.ephemeral)
                    assert alive is not None
                    assert alive.ephemeral_owner == roamer.client.id

    def _raise_failure(self) -> None:
        for roamer in self.each:
            if roamer.failure is not None:
                raise AssertionError(f"the client of {roamer.own} failed") from roamer.failure
