"""Clients that ping, as all client libraries do, and notice when their connection is closed."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.client.blocking import EPHEMERAL, Client, Disconnected


class Pinging:
    """A client that pings until its connection is closed, in a thread of its own."""

    def __init__(self, port: int, timeout_ms: int, path: str) -> None:
        self.client = Client(port, timeout_ms)
        self.client.create(path, mode=EPHEMERAL)
        self.path = path
        self.closed = 0.0  # time.monotonic()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Be silent from now on; the connection stays."""
        self._over = True
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over:
                self.client.ping()
                time.sleep(0.05)
        except (Disconnected, OSError):
            self.closed = time.monotonic()


@contextmanager
def pinging(port: int, path: str, *timeouts_ms: int) -> Iterator[list[Pinging]]:
    """Clients with these timeouts."""
    clients = [Pinging(port, timeout, f"{path}-{timeout}") for timeout in timeouts_ms]
    try:
        yield clients
    finally:
        for each in clients:
            each.stop()
            each.client.drop()
