"""A session of the console's own: a client's connection without a socket.

Its requests take the way of any client's, through the connection, the log and the state machine. So ACLs,
quotas, limits, the audit log and watches treat them as any client's.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeVar

from codec import client as zk
from codec.client import Request
from codec.framing import Framer
from console.people.logins import Refused
from proxy.frontend.connection import Connection
from proxy.state.auth.scheme import Identities

_TIMEOUT = 30.0  # seconds until the answer to a request is given up
_SESSION_TIMEOUT = 30_000  # ms that are asked for
_MOST_REPLY = 64 << 20
_LENGTH = 4  # bytes of a packet's length, which is no part of the frame

T = TypeVar("T")


class NoAnswer(Exception):
    """The connection was closed, or no answer came in time: whether the request took effect is not known."""


class NoSession(Exception):
    """The server has not given a session, so that no request was sent."""


class _Transport(asyncio.Transport):
    """Hands what the server writes to the session."""

    def __init__(self, session: "LocalSession", peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self._session = session
        self._closing = False

    def write(self, data: Any) -> None:
        self._session.received(bytes(data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._session.closed)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        """There is no other end to be held up: a request waits for the answer to the one before it."""

    def resume_reading(self) -> None:
        """As above."""


class LocalSession:
    """One session: opened by `async with`, closed at its end. Requests one after the other."""

    def __init__(
        self, make: Callable[[], Connection], peername: tuple[str, int], identities: Identities
    ) -> None:
        """`make` gives a connection of the server. `peername`: whose requests these are, for the logs."""
        self._connection = make()
        self._peername = peername
        self._identities = identities
        self._framer = Framer(_MOST_REPLY)
        self._answers: deque[asyncio.Future[bytes]] = deque()
        self._xid = 0
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._connection.connection_made(_Transport(self, self._peername))
        # In place of those that the address would have: what a browser's user may is said by its login.
        self._connection.identity.identities = self._identities
        try:
            await self._send(zk.connect(_SESSION_TIMEOUT))
        except NoAnswer:
            self._end()
            raise NoSession(
                "this proxy has no place for the console's session (--max-client-connections,"
                " --max-connections), or etcd does not answer"
            ) from None
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A request that was refused leaves the session as it was.
        if not self._is_over and (kind is None or issubclass(kind, Refused | zk.ZooKeeperError)):
            with contextlib.suppress(NoAnswer, zk.ZooKeeperError):
                await self.ask(zk.close())
        self._end()

    async def ask(self, request: Request[T]) -> T:
        """Send a request and wait for its answer. Raises Refused, NoAnswer and ZooKeeperError."""
        packet, limit = zk.packet(self._xid + 1, request), self._connection.services.max_frame
        if len(packet) - _LENGTH > limit:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"with its path and its ACL the request has more than {limit} bytes (--max-frame)",
            )
        self._xid += 1
        reply = await self._send(packet)
        answer: T = zk.answer_of(request, zk.header(reply).error, zk.body(reply))
        return answer

    async def _send(self, packet: bytes) -> bytes:
        if self._is_over:
            raise NoAnswer("this proxy has closed the console's session")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._connection.data_received(packet)
        try:
            return await asyncio.wait_for(answer, _TIMEOUT)
        except TimeoutError:
            raise NoAnswer(f"no answer within {_TIMEOUT:.0f} s") from None

    def received(self, data: bytes) -> None:
        """The server has written something."""
        for frame in self._framer.feed(data):
            if self._answers:
                answer = self._answers.popleft()
                if not answer.done():
                    answer.set_result(frame)

    def closed(self) -> None:
        """The server has closed the connection."""
        self._end()
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(NoAnswer("this proxy has closed the console's session"))

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._connection.connection_lost(None)
