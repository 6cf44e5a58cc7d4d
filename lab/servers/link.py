"""A TCP link before a server, etcd or ZooKeeper, that a test can cut, block, listen to and lead elsewhere.

Here: bytes. Not here: what they mean, and what the servers make of a fault.
"""

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from typing import Self

_CHUNK = 1 << 16


_Sides = tuple[socket.socket, socket.socket]  # of one connection: the client's and the server's


def _hang_up(sides: _Sides) -> None:
    for side in sides:
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


class Link:
    """Relays each connection to the next of some servers here that takes it. Threads are daemons."""

    def __init__(self, *ports: int) -> None:
        """The servers' ports; while there are none, connections are closed."""
        self._ports = ports
        self._turns = itertools.count()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.RLock()
        self._pairs: list[_Sides] = []
        self._blocked = False
        self._run(self._accept)

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listening.getsockname()[1])

    @property
    def endpoint(self) -> str:
        """For `--etcd`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """For clients."""
        return f"127.0.0.1:{self.port}"

    def lead_to(self, *ports: int) -> None:
        """Connections from now on are for these servers; those that exist are broken."""
        with self._lock:
            self._ports = ports
            self.cut()

    def listeners(self) -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
        """For a new connection: get what the client sends before the server does, and the other way round."""
        return len, len

    def cut(self) -> None:
        """Break all connections; others may come."""
        with self._lock:
            for pair in self._pairs:
                _hang_up(pair)

    def block(self) -> None:
        """Break all connections and every one that comes."""
        with self._lock:
            self._blocked = True
            self.cut()

    def unblock(self) -> None:
        """Let connections come again."""
        with self._lock:
            self._blocked = False

    def close(self) -> None:
        """End everything."""
        with self._lock:
            self.block()
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, target: object, *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                if self._blocked:
                    near.close()
                    continue
                far = self._connected()
                if far is None:
                    near.close()
                    continue
                for side in (near, far):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.append((near, far))
            of_client, of_server = self.listeners()
            self._run(self._pass_on, (near, far), near, far, of_client)
            self._run(self._pass_on, (near, far), far, near, of_server)

    def _connected(self) -> socket.socket | None:
        """A connection to the next server; None if none runs."""
        turn = next(self._turns)
        for at in range(len(self._ports)):
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", self._ports[(turn + at) % len(self._ports)]))
        return None

    def _pass_on(
        self, pair: _Sides, source: socket.socket, target: socket.socket, listener: Callable[[bytes], object]
    ) -> None:
        """Send on what one side says; with its end both are closed."""
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                listener(chunk)
                target.sendall(chunk)
        _hang_up(pair)
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
                for side in pair:
                    side.close()
