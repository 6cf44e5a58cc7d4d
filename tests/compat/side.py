"""Plays the steps of a script against one server and records the answers, in order.

A step is begun on both servers before it is completed on either, so that they work at the same time. Judging
the records is `compare`'s.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple

from lab.oracle import requests, wire
from lab.oracle.client import Client
from lab.oracle.requests import EPHEMERAL, Create, Delete, Exists, GetChildren, Payload, Request
from lab.oracle.wire import Closed, Connection, Event, Reply, Session, Silent
from tests.compat import fields, script
from tests.compat.compare import Answer, Notice, Outcome, Seen
from tests.compat.script import Call, Close, Drop, Expire, Handshake, Junk, Open, Reopen, Step

SESSION_TIMEOUT_MS = 60000  # a slot without a connection is silent for many steps
SHORT_TIMEOUT_MS = 800
MARKERS = "/expiry-markers"
FAR_FUTURE = 1 << 61

_PROBE_XID = 0x7FFFFF00


class Server(NamedTuple):
    """One server, or several that serve one tree: a name for reports, and the ports on 127.0.0.1.

    Where there are contexts, sessions use TLS: the session in slot n the n-th, in turn.
    """

    name: str
    ports: tuple[int, ...]
    tls: tuple[ssl.SSLContext, ...] = ()


class _Slot:
    """One session of a script; `last_zxid` is the last that a reply showed it, as Java's client counts."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self.session = session
        self.connection: Connection | None = connection
        self.last_zxid = 0
        self.zxid_before_reopen = 0
        self.moves = 0


class Side:
    """One server under a script, with an administrator's session of its own."""

    def __init__(self, server: Server, root: str) -> None:
        """Make the node `root` for the run; raises RuntimeError if the server does not let us."""
        self.server = server
        self.root = root
        self._slots: dict[int, _Slot] = {}
        self._xid = 0
        self._fresh: Connection | None = None
        self._expiring: list[Seen] = []
        self._marker = Create(None)
        self._admin = Connection(server.ports[0])
        session = self._admin.connect(timeout_ms=SESSION_TIMEOUT_MS)
        if not isinstance(session, Session) or session.id == 0:
            raise RuntimeError(f"{server.name} refused a session: {session}")
        self._admin_request(Create("@" + MARKERS))
        reply = self._admin_request(Create("@" + root))
        if reply.err != 0:
            raise RuntimeError(f"{server.name} cannot create {root}: {reply}")

    def close(self) -> None:
        """End every session of the run."""
        for slot in self._slots.values():
            self._end_session(slot)
        self._slots.clear()
        if self._fresh is not None:
            self._fresh.close()
        _say_goodbye(self._admin)

    def begin(self, step: Step) -> None:
        """Send what the step sends."""
        match step:
            case Open(number):
                self._fresh = self._connect(number)
                self._fresh.send(wire.frame(wire.pack_connect(timeout_ms=SESSION_TIMEOUT_MS)))
            case Reopen(number):
                self._begin_reopen(number, step, SESSION_TIMEOUT_MS)
            case Expire(number):
                self._begin_expire(number)
            case Close(number):
                self._send(number, wire.frame(_header(1, wire.CLOSE_SESSION)))
            case Call():
                self._begin_call(step)
            case Junk(number, data):
                self._send(number, data)
            case Handshake():
                self._fresh = self._connect(0)
                self._fresh.send(step.data)
                if step.half_close:
                    self._fresh.shut_writing()

    def complete(self, step: Step) -> Outcome:
        """Read what the step is answered with; key -1 of the outcome is a connection outside the slots."""
        match step:
            case Open(number):
                return {number: self._complete_open(number)}
            case Reopen(number):
                return {number: self._complete_reopen(number)}
            case Expire(number):
                return {number: self._complete_expire(number)}
            case Close(number) | Junk(number):
                return {number: self._read_until_closed(number)}
            case Call(number):
                return {number: self._complete_call(step)}
            case Drop(number):
                self._drop(number)
                return {}
            case Handshake():
                return {-1: self._complete_handshake()}

    def begin_barrier(self, request: Request) -> None:
        """Send a ping or sync on every connection: what the last step caused comes before its reply."""
        for slot in self._slots.values():
            if slot.connection is not None:
                slot.connection.send(_frame(request, _PROBE_XID, self.root))

    def complete_barrier(self, outcome: Outcome) -> None:
        """Add to `outcome` what comes up to the replies."""
        for number, slot in self._slots.items():
            while slot.connection is not None:
                seen = self._read(slot)
                outcome.setdefault(number, []).append(seen)
                if isinstance(seen, Answer):
                    break

    def _admin_request(self, request: Request) -> Reply:
        self._admin.send(_frame(request, 1))
        while True:
            message = self._admin.receive()
            if isinstance(message, Reply):
                return message
            if not isinstance(message, Event):
                raise RuntimeError(f"{self.server.name} gave no reply to {request}: {message}")

    def _connect(self, number: int) -> Connection:
        """Return a new connection; slots are spread over the servers, and move at each reopening."""
        contexts = self.server.tls
        tls = contexts[number % len(contexts)] if contexts else None
        return Connection(self.server.ports[number % len(self.server.ports)], tls=tls)

    def _connection(self, number: int) -> Connection | None:
        slot = self._slots.get(number)
        return None if slot is None else slot.connection

    def _send(self, number: int, data: bytes) -> None:
        connection = self._connection(number)
        if connection is not None:
            connection.send(data)

    def _drop(self, number: int) -> None:
        connection = self._connection(number)
        if connection is not None:
            connection.close()
            self._slots[number].connection = None

    def _read(self, slot: _Slot, request: Request | None = None) -> Seen:
        """Return the next message, decoded as the reply to `request`; drops a connection that has ended."""
        if slot.connection is None:
            return Closed()
        message = slot.connection.receive()
        if isinstance(message, Event):
            path = script.unrooted(message.path, self.root)
            return Notice(message.zxid, message.type, message.state, str(path))
        if isinstance(message, Reply):
            if message.xid != wire.PING_XID:
                slot.last_zxid = max(slot.last_zxid, message.zxid)
            return self._answer(message, request)
        slot.connection.close()
        slot.connection = None
        return message

    def _answer(self, reply: Reply, request: Request | None) -> Answer:
        code = 0 if request is None else requests.opcode(request)
        values = fields.decode(code, reply.body, self.root)
        wrote = request is not None and reply.err == 0 and requests.writes(request)
        return Answer(reply.xid, reply.zxid, reply.err, values, wrote and not _failed_multi(code, values))

    def _read_until_closed(self, number: int) -> list[Seen]:
        slot = self._slots.get(number)
        seen: list[Seen] = []
        while slot is not None and slot.connection is not None:
            seen.append(self._read(slot))
        return seen

    def _complete_open(self, number: int) -> list[Seen]:
        connection, session = self._fresh_session()
        if session is None or session.id == 0:
            return _read_end(connection, session)
        before = self._slots.get(number)
        if before is not None:
            self._end_session(before)
        self._slots[number] = _Slot(session, connection)
        return [session]

    def _begin_reopen(self, number: int, step: Reopen, timeout_ms: int) -> None:
        slot = self._slots.get(number)
        if slot is None:
            return
        password = slot.session.password
        if not step.good_password:
            self._drop(number)  # ZooKeeper closes it: session_cases.py has what zketcd does
            password = bytes(byte ^ 0x55 for byte in password)
        connect = wire.pack_connect(
            session=slot.session.id,
            password=password,
            timeout_ms=timeout_ms,
            last_zxid=FAR_FUTURE if step.ahead else slot.last_zxid,
        )
        if step.good_password and not step.ahead:
            slot.moves += 1
        self._fresh = self._connect(number + slot.moves)
        self._fresh.send(wire.frame(connect))

    def _complete_reopen(self, number: int) -> list[Seen]:
        if self._fresh is None:
            return []
        connection, session = self._fresh_session()
        if session is None or session.id == 0:
            return _read_end(connection, session)
        slot = self._slots[number]
        old = self._read_until_closed(number)
        slot.connection = connection
        slot.zxid_before_reopen = slot.last_zxid
        return [*old, session]

    def _begin_expire(self, number: int) -> None:
        """Attach with a short timeout, leave an ephemeral marker, and say nothing more.

        Both in one go: on a busy machine the session might end in between. Waits for the replies here, so
        that neither side leaves its marker late because of the other.
        """
        self._begin_reopen(number, Reopen(number), SHORT_TIMEOUT_MS)
        fresh = self._fresh
        self._marker = Create(f"@{MARKERS}{self.root}-{number}", flags=EPHEMERAL)
        if fresh is not None:
            fresh.send(_frame(self._marker, 1))
        self._expiring = self._complete_reopen(number)
        slot = self._slots.get(number)
        if slot is not None and slot.connection is not None and slot.connection is fresh:
            self._expiring.append(self._read(slot, self._marker))

    def _complete_expire(self, number: int) -> list[Seen]:
        """Wait for the end of the session, as the marker tells: the connection may be closed before it."""
        seen, self._expiring = self._expiring, []
        if self._connection(number) is None:
            return seen
        deadline = time.monotonic() + self._admin.timeout
        while self._admin_request(Exists(self._marker.path)).err == 0:
            if time.monotonic() > deadline:
                return [*seen, Silent()]
            time.sleep(0.02)
        return seen + self._read_until_closed(number)

    def _begin_call(self, step: Call) -> None:
        slot = self._slots.get(step.slot)
        if slot is None:
            return
        zxids = {"last": slot.zxid_before_reopen, "zero": 0, "future": FAR_FUTURE}
        frames = b""
        for request in step.requests:
            self._xid += 1
            frames += _frame(request, self._xid, self.root, zxids)
        if _probed(step):
            frames += _frame(Exists("/"), _PROBE_XID)
        self._send(step.slot, frames)

    def _complete_call(self, step: Call) -> list[Seen]:
        slot = self._slots.get(step.slot)
        seen: list[Seen] = []
        waiting = list(step.requests)
        while slot is not None and slot.connection is not None and (waiting or _probed(step)):
            message = self._read(slot, waiting[0] if waiting else None)
            if isinstance(message, Answer):
                if message.xid == _PROBE_XID:
                    break
                del waiting[:1]
            seen.append(message)
        return seen

    def _complete_handshake(self) -> list[Seen]:
        connection, session = self._fresh_session()
        if session is None or session.id == 0:
            return _read_end(connection, session)
        _say_goodbye(connection)
        return [session]

    def _fresh_session(self) -> tuple[Connection, Session | None]:
        """Return the connection just begun and its session, None if the server answered otherwise."""
        if self._fresh is None:
            raise RuntimeError("no connection was begun")
        connection, self._fresh = self._fresh, None
        answer = connection.receive_session()
        return connection, answer if isinstance(answer, Session) else None

    def _end_session(self, slot: _Slot) -> None:
        """Close a session, over a new connection if it has none; one that is gone already is no problem."""
        if slot.connection is None:
            connection = self._connect(0)
            answer = connection.connect(session=slot.session.id, password=slot.session.password)
            if not isinstance(answer, Session) or answer.id == 0:
                connection.close()
                return
            slot.connection = connection
        _say_goodbye(slot.connection)
        slot.connection = None


def _frame(request: Request, xid: int, root: str = "", zxids: Mapping[str, int] = {}) -> bytes:
    return wire.frame(requests.encode(script.resolved(request, root, zxids), xid))


def _say_goodbye(connection: Connection) -> None:
    """Close the session of a connection and wait for the server to close."""
    connection.send(wire.frame(_header(1, wire.CLOSE_SESSION)))
    while isinstance(connection.receive(), Reply | Event):
        pass
    connection.close()


def _read_end(connection: Connection, session: Session | None) -> list[Seen]:
    """Return how a refused handshake ended: the refusal if there was one, then closed or silent."""
    end = connection.receive_frame()
    connection.close()
    seen: list[Seen] = [] if session is None else [session]
    if isinstance(end, bytes):
        return [*seen, Answer(0, 0, 0, ("unexpected", end), False)]
    return [*seen, end]


def _header(xid: int, code: int) -> bytes:
    return wire.pack_int(xid) + wire.pack_int(code)


def _probed(step: Call) -> bool:
    """Return whether a plain request must follow, because the step's own answer is not known."""
    return any(isinstance(request, Payload) for request in step.requests)


def _failed_multi(code: int, values: tuple[fields.Value, ...]) -> bool:
    results = values[:-1] if code == wire.MULTI else ()
    return any(isinstance(result, tuple) and result[0] == wire.ERROR for result in results)


def remove(server: Server, path: str) -> None:
    """Remove a node and everything below it, if it is there."""
    with Client(server.ports[0]) as session:
        _remove(session, path)
        session.close()


def _remove(session: Client, path: str) -> None:
    reply = session.ask(GetChildren(path))
    if isinstance(reply, Reply) and reply.err == 0:
        for name in wire.Cursor(reply.body).strings():
            _remove(session, f"{path}/{name}")
        session.ask(Delete(path))
