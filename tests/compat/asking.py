"""A session whose requests are asked one after the other, for comparisons that are no scripts."""

from __future__ import annotations

from typing import Self

from lab.oracle import wire
from lab.oracle.wire import Closed, Connection, Event, Reply, Session, Silent
from tests.compat import script


class Asking:
    """One session of one server."""

    def __init__(self, port: int) -> None:
        self.connection = Connection(port, timeout=60)
        # It sends no pings, and waits for others.
        session = self.connection.connect(timeout_ms=40_000)
        assert isinstance(session, Session), session
        self.session = session
        self._xid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask(self, request: script.Request) -> Reply | Closed | Silent:
        """Send a request with its paths as they stand; the answer. Events are passed over."""
        self._xid += 1
        self.connection.send(wire.frame(script.encode(request, self._xid, "", {})))
        while isinstance(message := self.connection.receive(), Event):
            pass
        return message

    def ask_for_reply(self, request: script.Request) -> Reply:
        """As `ask`, of a server that must reply."""
        reply = self.ask(request)
        assert isinstance(reply, Reply), (request, reply)
        return reply

    def end(self) -> None:
        """Close the session."""
        self.connection.send(wire.frame(wire.pack_int(self._xid + 1) + wire.pack_int(wire.CLOSE_SESSION)))
        self.connection.receive()
