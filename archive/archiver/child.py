"""The archiver as a child of a proxy: `python -m archive.archiver.child` (see serve.archiving)."""

import asyncio
import gc
import json
import logging
import os
import sys
from typing import Any

import uvloop

from archive.archiver.archiver import Archiver
from archive.archiver.stats import Stats
from archive.files.catalog import ArchiveError
from archive.files.store import store_of
from proxy.etcd.access import Access
from proxy.support.child import begin, until_orphaned
from schema.keys import Keyspace

log = logging.getLogger(__name__)


class ReportedStats(Stats):
    """What the archiver has done, as lines on stdout."""

    def write(self) -> None:
        """A line, if it differs from the last one."""
        line = json.dumps(self.metrics()).encode() + b"\n"
        if line != self._last:
            self._last = line
            os.write(sys.stdout.fileno(), line)

    _last = b""


async def _run(config: dict[str, Any]) -> None:
    stats = ReportedStats()
    stats.write()
    store = await asyncio.to_thread(store_of, config["url"])
    etcd = Access.from_json(config).client()
    try:
        await Archiver(etcd, Keyspace(config["prefix"]), store, keep_ms=config["keep_ms"], stats=stats).run()
    finally:
        await etcd.close()


def main() -> int:
    """Archive until stdin is closed: 0; 1 if that cannot be."""
    config = begin("archive")
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_orphaned(_run(config)))
    except (ArchiveError, OSError, ValueError) as error:
        log.error("the tree is not archived: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
