"""Loads a tree that follows a ZooKeeper, and keeps the state up to date, until the tree may be served.

Meanwhile the proxy serves no client and writes nothing. At the cut-over (docs/decisions/0024) it only has to
apply the last entries, however large the tree is.
"""

import asyncio
import logging
from collections.abc import Callable

from proxy.etcd.interface import Reads
from proxy.log.catch_up import Caught, entries_after
from proxy.log.pages import UnusableSnapshot, read_snapshot
from proxy.log.record import TreeNotServable, is_following, look
from proxy.log.replay import Replay
from proxy.state.machine import Machine
from proxy.support.throttled_log import ThrottledLog
from schema.keys import Keyspace
from schema.record import SnapshotRef

log = logging.getLogger(__name__)

_INTERVAL = 0.2  # seconds between two reads


async def stand_by(
    etcd: Reads, keys: Keyspace, progress: Callable[[int], None]
) -> tuple[Machine, SnapshotRef] | None:
    """The state when the tree is complete, and the snapshot that its log continues from.

    None: the tree does not follow, or not any more. Raises TreeNotServable, EtcdError.
    """
    machine: Machine | None = None
    loaded = ""
    throttled_log = ThrottledLog(log)
    while True:
        found = await look(etcd, keys)
        record = found.record
        if record is None or found.pair is None or record.current is None:
            return None
        if not (record.complete or is_following(found)):
            return None
        current = record.current
        # A checkpoint deletes entries: if some were not applied, begin again from its snapshot.
        if machine is None or (current.name != loaded and machine.zxid < current.zxid):
            try:
                machine = await read_snapshot(etcd, keys, current, progress)
            except UnusableSnapshot as error:
                if (again := (await look(etcd, keys)).record) is not None and again.current == current:
                    raise TreeNotServable(f"the tree under {keys.prefix.decode()}: {error}") from error
                machine = None
                continue
        loaded = current.name
        entries = await entries_after(etcd, keys, machine.applied, found)
        caught = Caught(found.revision, record, found.pair, found.proxies, entries)
        await Replay(keys, machine, caught, progress).run(found.revision)
        if record.complete:
            return machine, current
        throttled_log.warn(
            "the tree under %s follows a ZooKeeper, now at zxid 0x%x: waiting for `python -m pipeline follow"
            " --finish`",
            keys.prefix.decode(),
            machine.zxid,
        )
        await asyncio.sleep(_INTERVAL)
