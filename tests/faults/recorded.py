"""A client of real servers that writes down what it sees: lab.client.blocking with a history.

Several clients in threads share one history and its lock.
"""

import threading
import time
from typing import Any

from codec.jute import Reader
from lab.client import blocking as zk
from lab.client.blocking import Client, Event, Reply, Stat
from proof.history import records as r
from proof.history.recorder import History


class RecordingClient:
    """One session; `call` sends one request and waits for its reply."""

    def __init__(
        self, port: int, history: History, lock: threading.Lock, timeout_ms: int = zk.LONG_MS
    ) -> None:
        """Open a session. Raises Disconnected."""
        self._history = history
        self._lock = lock
        self.client = Client(port, timeout_ms)
        self._told = 0
        with lock:
            history.opened(time.monotonic_ns(), self.client.id, self.client.timeout_ms)

    def call(self, request: r.Request) -> r.Reply:
        """Send a request, record it, the events that come before its reply, and the reply.

        Raises Disconnected.
        """
        session = self.client.id
        with self._lock:
            call = self._history.invoke(time.monotonic_ns(), session, request)
        try:
            (xid,) = self.client.send(_packed(request))
            while True:
                message = self.client.receive()
                if isinstance(message, Event):
                    with self._lock:
                        self._history.event(
                            time.monotonic_ns(), session, message.type, message.path, message.zxid
                        )
                elif isinstance(message, Reply):
                    assert message.xid == xid
                    reply = _unpacked(request, message)
                    with self._lock:
                        self._history.reply(time.monotonic_ns(), call, reply)
                    return reply
        except (zk.Disconnected, OSError):
            with self._lock:
                self._history.lost(time.monotonic_ns(), call)
                self._history.disconnected(time.monotonic_ns(), session)
            raise

    def reconnect(self, port: int) -> None:
        """Go on with the session on another connection. Raises Disconnected."""
        self.client.reconnect(port)
        with self._lock:
            self._history.attached(time.monotonic_ns(), self.client.id)


def _packed(request: r.Request) -> zk.Request[Any]:
    if isinstance(request, r.Multi):
        return zk.multi([_packed(part) for part in request.parts])
    if isinstance(request, r.Create):
        return zk.create(request.path, request.data, request.ephemeral + 2 * request.sequential)
    if isinstance(request, r.Delete):
        return zk.delete(request.path, request.version)
    if isinstance(request, r.SetData):
        return zk.set_data(request.path, request.data or b"", request.version)
    if isinstance(request, r.Check):
        return zk.check(request.path, request.version)
    if isinstance(request, r.Exists):
        return zk.exists(request.path, request.watch)
    if isinstance(request, r.GetData):
        return zk.get(request.path, request.watch)
    if isinstance(request, r.GetChildren):
        return zk.children(request.path, request.watch)
    if isinstance(request, r.AddWatch):
        return zk.add_watch(request.path, recursive=request.recursive)
    if isinstance(request, r.Sync):
        return zk.SYNC
    assert isinstance(request, r.CloseSession)
    return zk.CLOSE


def _stat(stat: Stat | None) -> r.Stat | None:
    if stat is None:
        return None
    return r.Stat(
        stat.czxid,
        stat.mzxid,
        stat.version,
        stat.cversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.pzxid,
    )


def _unpacked(request: r.Request, message: Reply) -> r.Reply:
    reply = r.Reply(message.err, message.zxid)
    if isinstance(request, r.Multi) and message.body:
        parts = zk.parts_of(message.body)
        return reply._replace(
            error=0,
            parts=tuple(r.Reply(part.error, None, part.path, stat=_stat(part.stat)) for part in parts),
        )
    if message.err:
        return reply
    if isinstance(request, r.Create):
        return reply._replace(path=message.path)
    if isinstance(request, r.GetData):
        found = zk.get(request.path).read(Reader(message.body))
        return reply._replace(data=found.data, stat=_stat(found.stat))
    if isinstance(request, r.GetChildren):
        listed = zk.children(request.path).read(Reader(message.body))
        return reply._replace(names=tuple(listed.names), stat=_stat(listed.stat))
    if isinstance(request, r.Exists | r.SetData):
        return reply._replace(stat=_stat(message.stat))
    return reply
