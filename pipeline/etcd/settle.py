"""A snapshot that holds all that a tree holds now, so that its pages alone are the tree at one position.

Where a log lies behind the newest snapshot, another one is written first, as proxies do it: by loading the
tree and replaying its log with the same state machine.
"""

import contextlib
import gc
from collections.abc import Iterator

from pipeline.etcd.read import NotReadable, Survey, has_log_behind, record_of
from proxy.etcd.interface import Etcd
from proxy.log import snapshot_writer
from proxy.log.record import TreeNotServable
from proxy.log.snapshot_writer import WriteFailed
from proxy.log.truncation import Overtaken
from proxy.log.visitor import visit
from proxy.state.level import KNOWN
from schema.keys import Keyspace

_PACE = 64 << 20  # bytes a second; a proxy writes its own slower, beside its clients' requests
_TRIES = 5
_RELEASE = "pipeline"


async def settled(etcd: Etcd, keys: Keyspace) -> Survey:
    """The newest snapshot, written now if the log has gone on since. Raises NotReadable, EtcdError."""
    first, record = await record_of(etcd, keys)
    if record.current is not None and not await has_log_behind(etcd, keys, record.current):
        return Survey(first.revision, record.current, len(first.proxies))
    for _ in range(_TRIES):
        found, record = await record_of(etcd, keys)
        if record.current is not None and record.current.position >= first.revision:
            return Survey(found.revision, record.current, len(first.proxies))
        try:
            async with visit(etcd, keys, KNOWN, _RELEASE) as writer:
                with _uncollected():
                    await snapshot_writer.write(etcd, keys, writer, pace=_PACE)
        except Overtaken:
            continue
        except (TreeNotServable, WriteFailed) as error:
            raise NotReadable(str(error)) from error
    raise NotReadable(f"{keys.prefix.decode()}: others wrote snapshots at the same time, {_TRIES} times over")


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection, which would look through the loaded tree again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
