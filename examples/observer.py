"""Makes a workload's nodes before its hosts start, and looks at them in the end, in a session of its own."""

import asyncio
import time

from examples.invariants import Violation
from examples.world import World
from lab.client.session import ConnectionLost, Session


class Observer:
    """A subclass says what is to be done, and what must hold."""

    def __init__(self, world: World) -> None:
        self._at = world
        self._session: Session | None = None

    async def make_nodes(self) -> None:
        """Create what the hosts need. Raises ConnectionLost."""
        raise NotImplementedError

    async def unfinished(self) -> str:
        """What the hosts still have to do, empty if nothing. Raises ConnectionLost."""
        raise NotImplementedError

    def done(self) -> object:
        """Something that changes when the hosts do what they have to."""
        raise NotImplementedError

    async def look(self) -> None:
        """Compare what is in ZooKeeper with what the hosts know. Raises Violation or ConnectionLost."""
        raise NotImplementedError

    async def session(self) -> Session:
        """The session, a new one if it was lost. Raises ConnectionLost."""
        if self._session is None or self._session.lost.is_set():
            self._session = await self._at.connecting.session(self._at.addresses)
        return self._session

    async def wait_for_rest(self) -> None:
        """Wait until the hosts have done everything. Raises Violation."""
        deadline = Deadline(self._at.connecting.timeout_s)
        while True:
            try:
                left = await self.unfinished()
            except ConnectionLost as error:
                left = str(error)
            if not left:
                return
            deadline.check(self.done(), left)
            await asyncio.sleep(self._at.pause_s)

    async def judge(self) -> None:
        """Look at everything. Raises Violation."""
        while True:
            try:
                return await self.look()
            except ConnectionLost:
                await asyncio.sleep(self._at.pause_s)

    async def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            await self._session.close()


class Deadline:
    """How long hosts may do nothing that brings them nearer to the end, however much there is to do."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._last: object = None
        self._since = time.monotonic()

    def check(self, done: object, left: str) -> None:
        """Raises Violation if `done` has been the same for too long. `left`: what is still to be done."""
        now = time.monotonic()
        if done != self._last:
            self._last, self._since = done, now
        elif now - self._since > self._timeout_s:
            raise Violation("rest", f"for {self._timeout_s:g} s nothing was done, and {left}")
