"""The logs of clients' requests: the audit log, and the log of slow requests.

A server with neither of them has no `RequestLogs`, so its requests have no cost. Pure.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from typing_extensions import override

from codec.constants import OpCode
from codec.errors import MalformedPacket
from codec.jute import Reader
from codec.longs import hex64
from codec.operation_names import constant_name
from proxy.frontend import audit
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.requests import Write
from proxy.state.effect import path_of
from proxy.state.ops import EXTENDED
from proxy.state.pause import NO_PAUSE, Pause
from proxy.support.controls import shortened
from proxy.support.latency import OF_SESSIONS

log = logging.getLogger(__name__)

_MOST_OF_PATH = 1024  # characters
_MILLISECOND = 1_000_000
_STEPS_PER_LINE = 8
_BYTES_PER_STEP = 1 << 10


class Stages(NamedTuple):
    """When the entry that is being applied was sent to etcd, and when its applying began: nanoseconds."""

    sent: int
    applying: int

    def within(self, received: int, now: int) -> "Stages":
        """These times, limited to those of a request: one refused without an entry has no own times."""
        sent = min(max(self.sent, received), now)
        return Stages(sent, min(max(self.applying, sent), now))


class _Rest(Pause):
    """Lets other work run between the lines of one request, whose outcome is whole."""

    def __init__(self, rest: Callable[[], None]) -> None:
        super().__init__()
        self._rest = rest

    @override
    def __call__(self) -> None:
        super().__call__()
        self._rest()


class RequestLogs:
    """Both logs of one server."""

    def __init__(
        self,
        *,
        user: str,
        write_audit: Callable[[str], object] | None,
        slow_ms: int,
        stages: Callable[[], Stages],
        deleted_ephemerals: Callable[[], Sequence[str]],
        clock: Callable[[], int],
        writes: frozenset[int],
        rest: Callable[[], None],
    ) -> None:
        """`user` runs this process. `write_audit` takes lines; None: no audit log. `slow_ms` 0: no slow log.

        `deleted_ephemerals`: of the last session that ended. `clock`: that of `stages`. `writes`: opcodes.
        `rest`: called between the lines of an outcome that the log has applied (`StateWorker.rest`).
        """
        self._user = user
        self._write_audit = write_audit
        self._slow = slow_ms * _MILLISECOND
        self._stages = stages
        self._deleted_ephemerals = deleted_ephemerals
        self._clock = clock
        self._writes = writes
        self._pause = _Rest(rest)

    # -- audit -----------------------------------------------------------------------------------------------

    def server(self, operation: str) -> None:
        """This server starts or stops (serverStart, serverStop)."""
        if self._write_audit is not None:
            self._write_audit(audit.of_server(self._user, operation))

    def session_ended(self, session_id: int, killer: str = "") -> None:
        """A session has ended, just now. `killer`: the administrator who ended it."""
        if self._write_audit is not None:
            if killer:
                self._write_audit(audit.of_kill(session_id, killer))
            lines = audit.of_session_end(self._user, session_id, self._deleted_ephemerals())
            self._write_all(lines, self._pause)

    def refused(self, client: ClientInfo, scheme: str, name: str) -> None:
        """An authentication has failed. `name`: the name that the client claims, if it is known."""
        if self._write_audit is not None:
            self._write_audit(audit.of_refusal(client.session_id, name, client.address, scheme))

    def outcome(self, client: ClientInfo, write: Write, err: int, body: bytes) -> None:
        """A write of a client was applied, just now."""
        if self._slow:
            now = self._clock()
            if now - write.received >= self._slow:
                self._slow_write(client, write, now)
        if self._write_audit is not None:
            pause = NO_PAUSE if err else self._pause  # what was not applied has one line, and must not pause
            lines = audit.of_request(
                write.session_id,
                write.identities,
                client.address,
                write.opcode,
                _fields_of(write, pause),
                err,
                body,
            )
            self._write_all(lines, pause)
            if write.opcode == OpCode.CLOSE_SESSION and not err:
                self.session_ended(write.session_id)

    def _write_all(self, lines: Iterable[str], pause: Pause) -> None:
        """Write lines, those between two pauses together: a record of `logging` costs more than ten lines."""
        assert self._write_audit is not None
        some: list[str] = []
        steps = 0
        for line in lines:
            some.append(line)
            steps += _STEPS_PER_LINE + len(line) // _BYTES_PER_STEP
            if steps >= pause.every:
                self._write_audit("\n".join(some))
                pause.spend(steps)
                some.clear()
                steps = 0
        if some:
            self._write_audit("\n".join(some))
            pause.spend(steps)

    # -- slow requests ---------------------------------------------------------------------------------------

    def _slow_write(self, client: ClientInfo, write: Write, now: int) -> None:
        sent, applying = self._stages().within(write.received, now)
        log.warning(
            "slow request: session %s from %s: %s took %d ms: waiting %d, append %d, apply %d",
            hex64(write.session_id),
            client.address,
            _described(write.opcode, write.fields),
            (now - write.received) // _MILLISECOND,
            (sent - write.received) // _MILLISECOND,
            (applying - sent) // _MILLISECOND,
            (now - applying) // _MILLISECOND,
        )

    def reads(self, client: ClientInfo, opcode: int, count: int, nanos: int) -> None:
        """Requests of one kind, received together, are answered: log them if they are slow reads."""
        if self._slow and nanos >= self._slow and opcode not in self._writes and opcode not in OF_SESSIONS:
            log.warning(
                "slow request: session %s from %s: %s (%d together) took %d ms: waiting or reading",
                hex64(client.session_id),
                client.address,
                constant_name(opcode),
                count,
                nanos // _MILLISECOND,
            )


def _fields_of(write: Write, pause: Pause) -> Any:
    """The decoded body, also of a request so long that it was decoded only when it was applied.

    If such a one was not applied, only its path: to decode the rest takes long, and nothing can rest now.
    """
    operation = EXTENDED.writes[write.opcode]
    if write.fields is None:
        with suppress(MalformedPacket):
            if pause is not NO_PAUSE:
                return operation.decode(write.body, 0, pause)[0]
            if operation.has_path:
                return Reader(write.body, 0).string(), None, None, None
    return write.fields


def _described(opcode: int, fields: Any) -> str:
    """A readable form of the request: its name, and its path or the number of its parts."""
    name = constant_name(opcode)
    if opcode == OpCode.MULTI and fields is not None:
        return f"{name} of {len(fields)}"
    path = path_of(fields)
    return name if path is None else f"{name} {shortened(path, _MOST_OF_PATH)!r}"
