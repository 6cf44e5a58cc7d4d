"""Deletes containers and TTL nodes that are due: the clock of ZooKeeper's ContainerManager.

The asynchronous shell around `reaping`. Of all living proxies the one with the smallest incarnation does the
work; where two take themselves for it, each deletion is a guarded write of which one finds the node gone.
"""

import asyncio
import logging
import time
from typing import NamedTuple

from codec.constants import ErrorCode
from proxy.acl import Caller
from proxy.batch import Request
from proxy.committer import Committer
from proxy.mirror import Mirror
from proxy.ops.delete_container import REAP
from proxy.reaping import candidates

log = logging.getLogger(__name__)

# What a deletion is answered with when the node is no longer due, which is as good as its end.
_OVERTAKEN = (ErrorCode.NO_NODE, ErrorCode.NOT_EMPTY, ErrorCode.BAD_VERSION)
_NOBODY = Caller(0, ())


class Pace(NamedTuple):
    """How often to look, how fast to delete: ZooKeeper's znode.container.* properties."""

    check_interval: int  # ms between two looks
    max_per_minute: int
    max_never_used: int  # ms that a container may wait for its first child; 0: for ever


class Reaper:
    """Looks through the containers and TTL nodes every so often."""

    def __init__(self, mirror: Mirror, committer: Committer, incarnation: str, pace: Pace) -> None:
        self._mirror = mirror
        self._committer = committer
        self._incarnation = incarnation
        self._pace = pace

    async def run(self) -> None:
        """Do so for ever."""
        while True:
            await asyncio.sleep(self._pace.check_interval / 1000)
            if self.is_in_charge:
                await self._reap()

    @property
    def is_in_charge(self) -> bool:
        """Whether no living proxy has a smaller incarnation."""
        return all(self._incarnation <= other for other in self._mirror.proxies)

    async def _reap(self) -> None:
        gap = 60 / self._pace.max_per_minute
        for path in candidates(self._mirror.tree, _now(), self._pace.max_never_used):
            started = time.monotonic()
            refusal = await self._delete(path)
            if refusal is None:
                log.debug("deleted %s, a container or TTL node that was due", path)
            elif refusal not in _OVERTAKEN:
                log.warning("cannot delete %s, which is due: %s", path, refusal.name)
                return  # etcd is full, most likely: the next look tries again
            await asyncio.sleep(max(0.0, gap - (time.monotonic() - started)))

    async def _delete(self, path: str) -> ErrorCode | None:
        fields = path, self._pace.max_never_used
        size = 2 * len(path.encode())
        done = await self._committer.commit(
            lambda done: Request(REAP, fields, _NOBODY, size, done, of_session=False)
        )
        return done.refusal


def _now() -> int:
    return time.time_ns() // 1_000_000
