"""Deletes containers and TTL nodes that are due: the clock of ZooKeeper's ContainerManager.

The shell around `proxy.state.expiry`. The eldest living proxy does the work. If two proxies both do it, the
log has each deletion twice, and the second one does nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from codec.constants import ErrorCode
from proxy.log.pending import Pending
from proxy.state.expiry import Expiry
from proxy.state.tree import Tree
from schema.entry import Kind, NodeDue, encode_node_due

log = logging.getLogger(__name__)

# Outcomes that say that the node has changed, or is gone: there is nothing left to do.
_NOT_DUE_ANY_MORE = (ErrorCode.NO_NODE, ErrorCode.NOT_EMPTY, ErrorCode.BAD_VERSION)


class Pace(NamedTuple):
    """How often to look, and how fast to delete: ZooKeeper's znode.container.* properties."""

    check_interval: int  # ms between two looks
    max_per_minute: int


class NodeExpiry:
    """Looks through the containers and TTL nodes periodically."""

    def __init__(
        self,
        tree: Tree,
        expiry: Expiry,
        is_eldest: Callable[[], bool],
        submit: Callable[[Pending], None],
        pace: Pace,
    ) -> None:
        self._tree = tree
        self._expiry = expiry
        self._is_eldest = is_eldest
        self._submit = submit
        self._pace = pace
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Look and delete until cancelled."""
        while True:
            await asyncio.sleep(self._pace.check_interval / 1000)
            if self._is_eldest():
                await self._delete_due()
            else:
                # What this proxy has seen is too old by the time it is the eldest.
                self._expiry.forget()

    async def _delete_due(self) -> None:
        gap = 60 / self._pace.max_per_minute
        for due in self._expiry.look(self._tree, int(self._loop.time() * 1000)):
            if not self._is_eldest():
                return
            started = self._loop.time()
            err = await self._delete(due)
            if not err:
                log.debug("deleted %s, a container or TTL node that was due", due.path)
            elif err not in _NOT_DUE_ANY_MORE:
                name = ErrorCode(err).name
                log.warning("cannot delete %s, a container or TTL node that is due: %s", due.path, name)
                return  # etcd has no space, most likely: the next look tries again
            await asyncio.sleep(max(0.0, gap - (self._loop.time() - started)))

    async def _delete(self, due: NodeDue) -> int:
        outcome: asyncio.Future[int] = self._loop.create_future()

        def done(_pending: Pending, _zxid: int, err: int, _body: bytes) -> None:
            if not outcome.done():
                outcome.set_result(err)

        self._submit(Pending(Kind.NODE_DUE, 0, 0, (), encode_node_due(*due), done))
        return await outcome
