"""A simulated host's session: it opens another one when a connection is lost, and fences the earlier one off.

ClickHouse's client never resumes a session after a lost connection; neither do these hosts. Each new
session writes the host's own node, and every multi of the host checks that node's version: what an earlier
session has asked for and comes late does nothing. So once a host has its next session, everything without an
answer has either happened or never will. (ClickHouse itself fences its inserts with a quorum in this way.)
"""

import asyncio

from codec.client import Request, check, exists, set_data
from codec.constants import ErrorCode
from examples.zero_copy.steps import Step, Steps
from examples.zero_copy.storage import Violation
from examples.zero_copy.surroundings import Connecting, Surroundings
from lab.client.session import ConnectionLost, Session, ZooKeeperError


class Member:
    """One simulated host. A subclass says what a new session has to do first."""

    def __init__(
        self,
        surroundings: Surroundings,
        connecting: Connecting,
        steps: Steps,
        name: str,
        node: str,
        number: int,
    ) -> None:
        """`node` is the path of the host's own node; it must be there. `number` chooses its first server."""
        self.name = name
        self.number = number
        self._at = surroundings
        self._connecting = connecting
        self._steps = steps
        self._node = node
        self._session: Session | None = None
        self._ready = asyncio.Event()
        self._version = 0

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
        at = self._at
        self._session = session = await self._connecting.session(at.addresses, self.number, at.meter)
        try:
            with self._steps.step("session", session) as step:
                await self._begin(step)
                await self.settle(step)
        except BaseException:
            session.drop()
            raise
        self._ready.set()
        await session.lost.wait()

    async def close(self) -> None:
        """End the session, if it lives."""
        if self._session is not None:
            await self._session.close()

    async def _begin(self, step: Step) -> None:
        """Write the host's node: from now on no request of an earlier session does anything."""
        while True:
            stat = await step.call(exists(self._node))
            if stat is None:
                raise Violation("lost-node", f"{self._node} is gone")
            try:
                written = await step.call(set_data(self._node, self.name.encode(), stat.version))
            except ZooKeeperError as error:
                if error.code != ErrorCode.BAD_VERSION:
                    raise
                continue  # a request of the session before came late
            self._version = written.version
            return
