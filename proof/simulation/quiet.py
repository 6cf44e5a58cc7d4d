"""Quiet stretches: hours in which nothing goes wrong cost next to nothing.

A proxy looks at many things periodically: ten times a second whether its state is recent, each second what
etcd's newest entry is, and so on. While no fault goes on and none begins, such a look finds what the last one
found. A world says until when it is quiet (`World.quiet_until`). Until then these looks are half a minute
apart. What they would have kept up to date is taken for what it would be: etcd has just answered, also the
proxy's keep-alive. Everything else is as ever: clients' pings and requests, the log, watches, the ends of
sessions, snapshots, containers and TTL nodes.
"""

import asyncio
import importlib
from asyncio import events
from typing import Any

from proof.simulation.world import Host
from proxy.frontend.session_timer import SessionTimer
from proxy.log.log import Log

SLEEPERS = (
    "proxy.etcd.leases",
    "proxy.etcd.status_poller",
    "proxy.log.membership",
    "proxy.log.node_expiry",
    "proxy.log.snapshots",
    "proxy.log.staleness",
)
"""Modules whose `asyncio.sleep` is the pause between two such looks, or a short one."""
_SHORT = 0.1  # seconds; a shorter sleep is no period


class _Asyncio:
    """The module `asyncio`, but for `sleep`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(delay: float) -> None:
        host = events._get_running_loop()
        assert isinstance(host, Host)
        await asyncio.sleep(host.world.stretched(delay) if delay >= _SHORT and host.world.is_quiet else delay)


async def _check_sessions(self: SessionTimer) -> None:
    """SessionTimer.run, without checks before the first session can be due."""
    sessions = self._sessions
    while True:
        host = self._loop
        assert isinstance(host, Host)
        interval = pause = self._interval
        if host.world.is_quiet and not sessions.orphans:
            now = host.time()
            due = [session.heard + session.timeout_ms / 1000 - now for session in sessions]
            # A session that begins meanwhile has at least the shortest timeout there is.
            pause = host.world.stretched(interval, min([sessions._min / 1000, *due]))
        await asyncio.sleep(pause)
        if pause > interval:
            sessions._checked = None  # nobody has stood still
        self.check()


def _silence(log: Log) -> float:
    host = log._loop
    assert isinstance(host, Host)
    return 0.0 if host.world.is_quiet else max(0.0, host.time() - log._etcd.last_contact)


def _keep_alive_sent(log: Log) -> float:
    host = log._loop
    assert isinstance(host, Host)
    return host.time() if host.world.is_quiet else log._membership.keep_alive_sent


def replacements() -> list[tuple[Any, str, Any]]:
    """What is replaced: owner, name, by what."""
    shim = _Asyncio()
    return [
        *((importlib.import_module(name), "asyncio", shim) for name in SLEEPERS),
        (SessionTimer, "run", _check_sessions),
        (Log, "silence", property(_silence)),
        (Log, "keep_alive_sent", property(_keep_alive_sent)),
    ]
