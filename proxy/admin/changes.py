"""The commands that change this process or end a session: shed_connections, log_level, kill_session.

The first is ZooKeeper's (ZOOKEEPER-5015, Commands.ShedConnectionsCommand); the others are zketcd's own. Their
arguments are a JSON object in the body of a POST.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeAlias

from codec.constants import ErrorCode
from codec.longs import hex64
from proxy.admin.commands import Response, failed
from proxy.admin.guard import Guard, Refused
from proxy.admin.subject import Subject
from proxy.state.auth.scheme import Identities
from proxy.state.auth.schemes import SCHEMES, named
from proxy.support import logs
from proxy.support.controls import shortened
from proxy.support.environment import HOST

log = logging.getLogger(__name__)

Killer: TypeAlias = Callable[[int, str], Awaitable[int]]
"""Ends a session in the name of a user; gives the error, or 0."""

_ANSWERS = {
    0: (HTTPStatus.OK, None),
    ErrorCode.SESSION_EXPIRED: (HTTPStatus.NOT_FOUND, "there is no such session"),
    ErrorCode.NOT_READ_ONLY: (HTTPStatus.SERVICE_UNAVAILABLE, "this proxy only reads"),
    ErrorCode.CONNECTION_LOSS: (HTTPStatus.SERVICE_UNAVAILABLE, "this proxy has no outcome: try again"),
}
_MOST_OF_NAMES = 256  # characters
_UNKNOWN = HTTPStatus.SERVICE_UNAVAILABLE, "etcd did not take the request: look whether the session is there"


class BadRequest(Exception):
    """The body is not what the command needs; the message says why."""


class Changes:
    """These commands about one server."""

    def __init__(self, subject: Subject, guard: Guard, kill: Killer) -> None:
        self._subject = subject
        self._guard = guard
        self._kill_session = kill
        self._commands: dict[str, tuple[str, bool, Callable[[Any, str], Awaitable[Response]]]] = {
            # Its first name, whether only users count that the root's ACL names, what it does.
            "shed_connections": ("shed_connections", False, self._shed),
            "shed": ("shed_connections", False, self._shed),
            "log_level": ("log_level", True, self._log_level),
            "kill_session": ("kill_session", True, self._kill),
        }

    @property
    def primary_names(self) -> list[str]:
        """The commands' first names, sorted."""
        return sorted({name for name, _, _ in self._commands.values()})

    async def run(
        self, method: str, name: str, body: bytes, authorization: str | None, address: str
    ) -> Response | None:
        """Run a command; None if it is none of these."""
        command = self._commands.get(name)
        if command is None:
            return None
        first, needs_user, act = command
        if method == "GET" and first == "log_level":
            return Response(HTTPStatus.OK, {"level": logs.level(), "command": first, "error": None})
        judged = self._guard.judge(authorization, address, named=needs_user)
        if isinstance(judged, Refused):
            return failed(judged.status, name, judged.why)
        if method != "POST":
            return failed(HTTPStatus.METHOD_NOT_ALLOWED, name, f"{first} needs the method POST")
        try:
            return await act(_members(body), _name_of(judged, address))
        except BadRequest as error:
            return failed(HTTPStatus.BAD_REQUEST, first, str(error))

    async def _shed(self, members: Any, who: str) -> Response:
        """Close about this share of the clients' connections; their sessions live on."""
        percentage = _as_int(_member(members, "percentage"))
        if not 0 <= percentage <= 100:
            raise BadRequest("Percentage must be between 0 and 100")
        connections = [each for each in self._subject.connections if not each.order.is_closed]
        # Each by chance, as ZooKeeper does: the number is not exact.
        chosen = [each for each in connections if HOST.randomness.randbits(32) * 100 < percentage * 2**32]
        for connection in chosen:
            connection.close()
        log.warning(
            "shed %d of %d connections (%d%%), asked by %s", len(chosen), len(connections), percentage, who
        )
        return _done(
            "shed_connections", {"connections_shed": len(chosen), "percentage_requested": percentage}
        )

    async def _log_level(self, members: Any, who: str) -> Response:
        """Change the lowest level of this process's messages."""
        level = _member(members, "level")
        if level not in logs.LEVELS:
            raise BadRequest(f"level is one of {', '.join(logs.LEVELS)}")
        logs.set_level(level, who)
        return _done("log_level", {"level": level})

    async def _kill(self, members: Any, who: str) -> Response:
        """End a session of the tree, wherever its client is connected."""
        session = _member(members, "session")
        try:
            number = int(session, 0) if isinstance(session, str) else None
        except ValueError:
            number = None
        if number is None or not 0 <= number < 1 << 64:
            raise BadRequest("session is its id as a string, such as 0x10000a3b2c40001")
        if not self._subject.handshake.is_open:
            return failed(HTTPStatus.SERVICE_UNAVAILABLE, "kill_session", "this proxy does not serve")
        number -= (number >> 63) << 64
        status, error = _ANSWERS.get(await self._kill_session(number, who), _UNKNOWN)
        if error:
            return failed(status, "kill_session", error)
        return _done("kill_session", {"session": hex64(number)})


def _done(name: str, body: dict[str, Any]) -> Response:
    return Response(HTTPStatus.OK, {**body, "command": name, "error": None})


def _members(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"Invalid JSON or failed to read request body: {error}") from error


def _member(members: Any, name: str) -> Any:
    if not isinstance(members, dict) or name not in members:
        raise BadRequest(f"Missing required field: {name}")
    return members[name]


def _as_int(value: object) -> int:
    """As Jackson's JsonNode.asInt: what is no number is 0."""
    try:
        return int(value) if isinstance(value, str | int | float) else 0
    except (ValueError, OverflowError):
        return 0


def _name_of(identities: Identities, address: str) -> str:
    """Who asks, for the logs."""
    names = [named(each) for each in identities if each.scheme in SCHEMES]
    return f"{shortened(','.join(names), _MOST_OF_NAMES)} from {address}"
