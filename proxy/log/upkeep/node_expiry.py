"""Deletes containers and TTL nodes that are due: the clock of ZooKeeper's ContainerManager.

The shell around `proxy.state.expiry`. The eldest living proxy does the work. If two proxies do it at the same
time, the log has each deletion twice, and the second one changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from codec.constants import ErrorCode
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.log import Log
from proxy.state.expiry import Expiry
from proxy.support.controls import shortened
from proxy.support.tasks import together
from schema.entry import Kind, NodeDue, encode_node_due

log = logging.getLogger(__name__)

# Outcomes that mean that the node has changed, or is gone, so it is not due any more.
_NOT_DUE_ANY_MORE = (ErrorCode.NO_NODE, ErrorCode.NOT_EMPTY, ErrorCode.BAD_VERSION)
_SLICE = 256  # nodes that are checked in one turn of the loop, which takes about half a millisecond
# A node may live longer than its TTL by the time between two records of what is applied. That time is at most
# so many seconds, and at most this part of the interval between two checks.
_LONGEST_NOTE = 1.0
_NOTES = 10
_MOST_OF_PATH = 1024  # characters


class Pace(NamedTuple):
    """How often to check, and how fast to delete: ZooKeeper's znode.container.* properties."""

    check_interval: int  # ms between two checks
    max_per_minute: int


class NodeExpiry:
    """Checks the containers and TTL nodes periodically."""

    def __init__(self, replicated: Log, expiry: Expiry, pace: Pace, time: Callable[[], float]) -> None:
        """`time`: seconds; what they count from means nothing."""
        self._replicated = replicated
        self._expiry = expiry
        self._pace = pace
        self._reloads = 0
        self._time = time

    async def run(self) -> None:
        """Check and delete until cancelled."""
        await together([self._note(), self._look()])

    async def _note(self) -> None:
        """Record at which time which zxid was applied. Every proxy does, since it may become the eldest."""
        interval = min(_LONGEST_NOTE, self._pace.check_interval / 1000 / _NOTES)
        while True:
            self._forget_if_reloaded()
            self._expiry.note(self._replicated.machine.zxid, self._now())
            await asyncio.sleep(interval)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._pace.check_interval / 1000)
            await self._delete_due()

    async def _delete_due(self) -> None:
        """Check each container and TTL node once, a slice in each turn of the loop."""
        gap = 60 / self._pace.max_per_minute
        tree = self._replicated.machine.tree
        now = left = 0  # nodes of this slice
        for path in list(tree.expiring):
            if not left:
                await asyncio.sleep(0)
                if not self._replicated.status().is_eldest:
                    return
                self._forget_if_reloaded()
                left, now = _SLICE, self._now()
            left -= 1
            if path not in tree.expiring:
                continue
            due = self._expiry.due(path, tree.nodes[path], now)
            if due is None:
                continue
            left = 0  # the deletion takes time
            started = self._time()
            err = await self._delete(due)
            if not err:
                log.debug("deleted %s, a container or TTL node that was due", shortened(path, _MOST_OF_PATH))
            elif err not in _NOT_DUE_ANY_MORE:
                name = ErrorCode(err).name
                shown = shortened(path, _MOST_OF_PATH)
                log.warning("cannot delete %s, a container or TTL node that is due: %s", shown, name)
                return  # etcd has no space, most likely: the next check tries again
            await asyncio.sleep(max(0.0, gap - (self._time() - started)))

    def _forget_if_reloaded(self) -> None:
        """After a load the state is a new one: drop what was recorded of the former one."""
        reloads = self._replicated.stats.reloads
        if reloads != self._reloads:
            self._reloads = reloads
            self._expiry.forget()

    def _now(self) -> int:
        return int(self._time() * 1000)

    async def _delete(self, due: NodeDue) -> int:
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(_pending: Pending, _zxid: int, err: int, _body: bytes) -> None:
            if not outcome.done():
                outcome.set_result(err)

        self._replicated.outbox.submit(CallbackRequest(Kind.NODE_DUE, encode_node_due(*due), done))
        return await outcome
