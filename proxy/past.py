"""A server of the past: clients read a moment of an archive. There is no log, and no etcd."""

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable, Iterable

from codec.constants import ErrorCode
from proxy.admin.state_source import StateSource
from proxy.base_server import BaseServer
from proxy.config import Config
from proxy.frontend.certificates import TlsContext
from proxy.frontend.handshake import PastHandshake
from proxy.frontend.read_only import ReadOnlySessions
from proxy.log.append.pending import Pending
from proxy.log.living import LivingProxies, Peers
from proxy.log.slices import StateWorker
from proxy.log.status import Contact, Freshness, LogStatus, Stats
from proxy.options.archive import ALL
from proxy.sasl.login import Login
from proxy.state.machine import Machine
from proxy.traces.span import Tracer


class _NoLog:
    """What operators can ask about a log."""

    def status(self) -> LogStatus:
        return LogStatus(LivingProxies(), Peers(), Stats(), age=math.inf)

    def contact(self) -> Contact:
        return Contact(math.inf, -math.inf, lease=0.0, rank=0, freshness=Freshness.PAST)


def _refuse(_requests: Iterable[Pending]) -> None:
    raise RuntimeError("the past cannot be changed: its sessions have to be read-only")


class PastServer(BaseServer):
    """Serves a state that does not change. All sessions are read-only."""

    def __init__(
        self,
        config: Config,
        tls: TlsContext | None = None,
        login: Login | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """The parameters are those of `Server`."""
        super().__init__(config, tls, login)
        log, randomness = _NoLog(), self._environment.randomness
        self._read_only = ReadOnlySessions(
            self.machine, self.sessions, log.contact, self._loop.time, randomness
        )
        source = StateSource(log, StateWorker(self.clock), _refuse)
        handshake = PastHandshake(self._read_only, self.clock, serves_all=config.archive.read_only == ALL)
        self._serve(source, handshake, tracer)

    async def start(
        self,
        load: Callable[[], Awaitable[Machine]],
        listener: socket.socket,
        secure: socket.socket | None = None,
    ) -> None:
        """Listen, load the state, then give clients sessions. Raises what `load` raises.

        `listener`, `secure`: as those of `Server.start`.
        """
        await self._listen(listener, secure)
        self.machine.replace(await load())
        self._handshake.is_open = True
        self._tasks.start(self._check(), "look after the sessions")

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            self._read_only.check()
            self.connections.check()

    async def stop(self) -> None:
        """Stop accepting, close the connections."""
        self._drain()
        await self._close_clients()
        await self._tasks.close()

    async def kill(self, session_id: int, who: str) -> int:
        """No session of the tree can be ended."""
        return ErrorCode.NOT_READ_ONLY
