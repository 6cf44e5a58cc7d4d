"""Archives the log, in a child process of one of the living proxies: the eldest of those with --archive.

When that proxy dies, its key in etcd goes, and all others see in the same stream who is the eldest now.
Until then two may archive: that does no harm (archive/files/names.py).
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from proxy.etcd.access import Access
from proxy.log.log import Log
from proxy.options.archive import ArchiveOptions
from proxy.support.child import end, start
from proxy.support.metrics import PlainMetric
from proxy.support.spawn import Child

log = logging.getLogger(__name__)

_MODULE = "archive.archiver.child"
_TICK = 1.0  # seconds
_TIMEOUT = 5.0  # seconds for the child to end
_FINISH = 30.0  # seconds for the child to archive what lies before the seal of a tree that has moved
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds before a child that ended is replaced


class Archiving:
    """One proxy's part in the archive of its tree."""

    def __init__(self, replicated: Log, access: Access, prefix: str, given: ArchiveOptions) -> None:
        self._replicated = replicated
        self._job = {**access.as_json(), "prefix": prefix, "url": given.url, "keep_ms": given.keep_ms}
        self._child: Child | None = None
        self._finishes = False
        #: What the child has reported last; empty while another proxy archives.
        self.metrics: Sequence[PlainMetric] = ()

    @property
    def _is_mine(self) -> bool:
        """Whether this proxy has to archive."""
        status = self._replicated.status()
        return bool(status.incarnation) and status.living.archiver == status.incarnation

    async def run(self) -> None:
        """Archive whenever it is this proxy's turn, until `finish`."""
        pause = _FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while not self._finishes:
            if not self._is_mine:
                self.metrics = ()
                pause = _FIRST_PAUSE
                await asyncio.sleep(_TICK)
                continue
            began = loop.time()
            await self._archive()
            if self._is_mine:
                if loop.time() - began > _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def finish(self) -> None:
        """The tree is sealed: wait until a child of this proxy has archived what lies before the seal."""
        self._finishes = True
        if self._child is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._child.wait(), _FINISH)

    async def _archive(self) -> None:
        """Run a child until it ends, or another proxy's turn has come."""
        try:
            child = await start(_MODULE, self._job)
        except OSError as error:
            log.error("the tree is not archived: %s", error)
            return
        self._child = child
        log.info("archiving the tree to %s, in process %d", self._job["url"], child.pid)
        reading = asyncio.get_running_loop().create_task(
            self._read(child), name="read the archiver's reports"
        )
        try:
            while self._is_mine and not reading.done():
                await asyncio.wait((reading,), timeout=_TICK)
            if reading.done() and self._is_mine and not self._finishes:
                log.error("the archiver has ended with status %d: another one is started", await child.wait())
            elif not self._is_mine:
                log.info("another proxy archives the tree")
        finally:
            reading.cancel()
            self._child = None
            await end(child, _TIMEOUT)

    async def _read(self, child: Child) -> None:
        assert child.stdout is not None
        while line := await child.stdout.readline():
            with suppress(ValueError, TypeError):
                reported: list[Any] = json.loads(line)
                self.metrics = [PlainMetric(*each) for each in reported]
