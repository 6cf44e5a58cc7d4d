"""A simulated host's session: it opens another one when a connection is lost, and fences the earlier one off.

ClickHouse's client never goes on with a session after a lost connection; neither do these hosts. Each new
session writes the host's own node, and every multi of the host checks that node's version: what an earlier
session has asked for and comes late does nothing. So once a host has its next session, everything without an
answer has either happened or never will. (ClickHouse itself fences its inserts with a quorum in this way.)
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from codec.constants import ErrorCode
from examples.client import (
    OPERATION_TIMEOUT_S,
    SESSION_TIMEOUT_MS,
    Address,
    ConnectionLost,
    MultiFailed,
    Session,
    ZooKeeperError,
    connect,
)
from examples.invariants import Violation
from examples.meter import Meter
from examples.requests import Request, check, exists, set_data
from examples.steps import Step, Steps


class Connecting(NamedTuple):
    """How hosts hold their sessions."""

    session_timeout_ms: int = SESSION_TIMEOUT_MS
    operation_timeout_s: float = OPERATION_TIMEOUT_S
    patience_s: float = 120.0
    """How long a host looks for a server, and how long nothing may happen before all has been done."""

    async def session(
        self, addresses: Sequence[Address], first: int = 0, meter: Meter | None = None
    ) -> Session:
        """A new session at one of the servers, beginning with number `first`. Raises ConnectionLost."""
        return await connect(
            addresses,
            first,
            timeout_ms=self.session_timeout_ms,
            operation_timeout_s=self.operation_timeout_s,
            patience_s=self.patience_s,
            meter=meter,
        )


class Member:
    """One simulated host. A subclass says what a new session has to do first."""

    def __init__(
        self,
        name: str,
        number: int,
        node: str,
        addresses: Sequence[Address],
        connecting: Connecting,
        meter: Meter,
        steps: Steps,
    ) -> None:
        """`node` is the path of the host's own node; it must be there. `number` chooses its first server."""
        self.name = name
        self.number = number
        self.steps = steps
        self._node = node
        self._addresses = addresses
        self._connecting = connecting
        self._meter = meter
        self._session: Session | None = None
        self._ready = asyncio.Event()
        self._version = 0

    async def presence(self, step: Step) -> list[Request[Any]]:
        """What the multi with which a session begins has besides; it is tried again if one of these fails."""
        del step
        return []

    async def settle(self, step: Step) -> None:
        """Find out what became of the requests of earlier sessions that had no answer."""

    @property
    def fence(self) -> Request[None]:
        """Makes a multi fail if it is not of this session."""
        return check(self._node, self._version)

    async def session(self) -> Session:
        """The session, as soon as there is one that has settled everything."""
        while True:
            await self._ready.wait()
            assert self._session is not None
            if not self._session.lost.is_set():
                return self._session
            self._ready.clear()

    def still(self, step: Step) -> None:
        """Raises ConnectionLost if the step's session is not the host's any more."""
        if step.session is not self._session or step.session.lost.is_set():
            raise ConnectionLost("the host has another session")

    async def hold(self) -> None:
        """Open a session and wait until it is lost. Raises ConnectionLost."""
        self._ready.clear()
        session = await self._connecting.session(self._addresses, self.number, self._meter)
        try:
            with self.steps.step("session", session) as step:
                await self._activate(step)
                await self.settle(step)
        except BaseException:
            session.drop()
            raise
        self._session = session
        self._ready.set()
        await session.lost.wait()

    async def close(self) -> None:
        """End the session, if it lives."""
        if self._session is not None:
            await self._session.close()

    async def _activate(self, step: Step) -> None:
        while True:
            stat = await step.call(exists(self._node))
            if stat is None:
                raise Violation("lost-node", f"{self._node} is gone")
            try:
                *_, written = await step.multi(
                    *await self.presence(step), set_data(self._node, self.name.encode(), stat.version)
                )
            except MultiFailed as failed:
                if failed.code not in (ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS, ErrorCode.BAD_VERSION):
                    raise
                continue  # the session before has ended just now, or a request of it came late
            self._version = written.version
            return


class Period:
    """How long the hosts write: some seconds, and as long as something else goes on."""

    def __init__(self, seconds: float, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        """`meanwhile`: e.g. faults, of which all are to come while the hosts write."""
        self._meanwhile = meanwhile
        self._until = time.monotonic() + seconds
        self._others_done = meanwhile is None

    @property
    def over(self) -> bool:
        """Whether the hosts are to end what they do."""
        return self._others_done and time.monotonic() >= self._until

    async def run_others(self) -> None:
        """Do what goes on meanwhile."""
        if self._meanwhile is not None:
            await self._meanwhile()
            self._others_done = True


M = TypeVar("M", bound=Member)


async def forever(member: M, task: Callable[[M], Awaitable[None]]) -> None:
    """Do a host's task, and begin it again after each lost connection."""
    while True:
        try:
            await task(member)
        except ConnectionLost:
            await asyncio.sleep(0)


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise by itself, instead of in a group, what made a workload's tasks fail."""
    try:
        yield
    except BaseExceptionGroup as several:  # what is raised in an `except*` would be a group again
        known = several.subgroup((Violation, ConnectionLost, ZooKeeperError))
        if known is None:
            raise
        raise first_of(known) from None


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception of a group, however deep it is."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
