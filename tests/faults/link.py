"""A TCP link between a proxy and its etcd that a test can cut, block, or hold bytes back on.

Here: bytes. Not here: what they mean, and what the servers make of a fault.
"""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16


class _Pair:
    """One connection: the proxy's side and etcd's."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far
        self.muted = False  # what is said is thrown away; but what came before the muting is sent on
        self.to_hold = 0  # bytes
        self.held: list[bytes] = []  # on the way to etcd

    def hang_up(self, *sides: socket.socket) -> None:
        """Close these sides, or both."""
        for side in sides or (self.near, self.far):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class Link:
    """Relays connections to 127.0.0.1:`port`. Threads are daemons, and end with the link."""

    def __init__(self, port: int) -> None:
        self.target = port  # where connections to come will lead
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.RLock()
        self._pairs: list[_Pair] = []
        self._blocked = False
        self._trap = 0  # bytes; 0: not set
        self._keep_far = False
        self._sprung = threading.Event()
        self._closed = False
        self._run(self._accept)

    @property
    def endpoint(self) -> str:
        """For `--etcd`."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self) -> None:
        """Break all connections; others may come."""
        with self._lock:
            for pair in self._pairs:
                pair.hang_up()

    def block(self) -> None:
        """Break all connections and every one that comes."""
        with self._lock:
            self._blocked = True
            self.cut()

    def unblock(self) -> None:
        """Let connections come again."""
        with self._lock:
            self._blocked = False

    def set_trap(self, size: int, *, etcd_goes_on: bool) -> None:
        """Cut as soon as `size` bytes at once have gone to etcd, before a byte of the answer.

        With `etcd_goes_on`, etcd does not notice that nobody waits for the answer.
        """
        with self._lock:
            self._sprung.clear()
            self._keep_far = etcd_goes_on
            self._trap = size

    def wait_for_trap(self, timeout: float = 30.0) -> None:
        """Wait until the trap was sprung. Raises TimeoutError."""
        if not self._sprung.wait(timeout):
            raise TimeoutError("nothing was sent to etcd")

    def hold(self, size: int) -> None:
        """Keep back the first `size` bytes sent to etcd on today's connections; throw the rest away.

        What etcd says on them is thrown away too.
        """
        with self._lock:
            for pair in self._pairs:
                pair.to_hold = size
                pair.muted = True

    def release(self) -> int:
        """Send on what was kept back, even if the sender has gone; nothing else will ever follow.

        Returns the number of bytes.
        """
        sent = 0
        with self._lock:
            for pair in self._pairs:
                for chunk in pair.held:
                    pair.far.sendall(chunk)
                    sent += len(chunk)
                pair.held.clear()
        return sent

    def close(self) -> None:
        """End everything."""
        with self._lock:
            self._closed = True
            self.block()
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:  # etcd does not run
                    near.close()
                    continue
                for side in (near, far):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair = _Pair(near, far)
                self._pairs.append(pair)
            self._run(self._requests, pair)
            self._run(self._answers, pair)

    def _requests(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while chunk := pair.near.recv(_CHUNK):
                with self._lock:
                    if pair.muted:
                        if pair.to_hold > 0:
                            pair.held.append(chunk)
                            pair.to_hold -= len(chunk)
                        continue
                    trapped = 0 < self._trap <= len(chunk)
                    if trapped:
                        pair.muted = True
                        self._trap = 0
                    pair.far.sendall(chunk)
                    if trapped:
                        pair.hang_up(*((pair.near,) if self._keep_far else ()))
                        self._sprung.set()
        if not pair.muted:
            pair.hang_up(pair.far)

    def _answers(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while chunk := pair.far.recv(_CHUNK):
                if not pair.muted:
                    pair.near.sendall(chunk)
        pair.hang_up()
        pair.near.close()
        pair.far.close()
        with self._lock:
            self._pairs.remove(pair)
