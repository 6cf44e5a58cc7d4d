"""Whether etcd has room for what a load writes, beside the reserve that proxies keep of its quota.

An etcd that is full refuses the writes of all its trees. What a load deletes is free again only after etcd's
next compaction, so the size that is in use now decides, also where another tree is replaced.
"""

from typing import NamedTuple

from pipeline.etcd.options import Connection
from pipeline.etcd.requests import TIMEOUT, LoadRefused, until_known_or_full
from proxy.etcd.interface import Etcd
from proxy.etcd.status_poller import ReadMetrics
from proxy.options.defaults import ETCD_RESERVE

_LOOK_EVERY = 4 << 20  # bytes that a task writes between two looks


class Room(NamedTuple):
    """etcd's space. Bytes."""

    quota: int
    in_use: int

    @property
    def reserve(self) -> int:
        """What proxies keep free by default: whoever loads a tree does not know their option."""
        return self.quota * ETCD_RESERVE // 100

    @property
    def free(self) -> int:
        """What may still be written; below 0 if the reserve is touched."""
        return self.quota - self.reserve - self.in_use

    def check(self, pages: int) -> str:
        """How much of it pages with so many bytes take, for people. Raises LoadRefused if they do not fit."""
        needed = pages * 9 // 8  # etcd's own pages are not full, and a sample is none of all
        takes = f"the tree takes about {_mib(needed)} MiB"
        if needed > self.free:
            raise self.too_small(takes)
        return f"{takes} of {self.free >> 20} MiB that are free"

    def too_small(self, what: str) -> LoadRefused:
        """The error if this is not enough."""
        return LoadRefused(
            f"etcd has no room: {what}, {_mib(self.in_use)} of {self.quota >> 20} MiB are in use, and"
            f" {_mib(self.reserve)} MiB are kept free for the proxies of all its trees. Raise its"
            " --quota-backend-bytes, or delete what is not needed there (etcdctl del --prefix) and compact it"
        )


async def room_in(etcd: Etcd, read_metrics: ReadMetrics) -> Room | None:
    """None if etcd does not show its quota or its size, or has no quota. Raises EtcdError."""
    status = await until_known_or_full(etcd.status, TIMEOUT)
    found = await read_metrics(etcd.endpoint)
    if found is None or found.quota <= 0:
        return None
    in_use = found.completed(status).db_size_in_use
    return Room(found.quota, in_use) if in_use else None


async def room_of(connection: Connection) -> Room | None:
    """As `room_in`. Raises OSError, ValueError for a file that cannot be used, EtcdError."""
    reader = connection.metrics_reader()
    async with connection.client() as etcd:
        return await room_in(etcd, reader)


class Looks:
    """The looks at etcd's room while a task writes: others write too, and a stream's size is unknown.

    There are none where etcd tells its size to root alone (EtcdClient.status).
    """

    def __init__(self, etcd: Etcd, room: Room | None) -> None:
        """`room`: before the load, with the quota, which no status has; None: it is not known."""
        self._etcd = etcd
        self._room = room
        self._unlooked = _LOOK_EVERY

    async def before(self, size: int) -> None:
        """Before so many bytes are written. Raises LoadRefused once the reserve is touched, EtcdError."""
        self._unlooked += size
        if self._room is None or self._unlooked < _LOOK_EVERY:
            return
        self._unlooked = 0
        status = await until_known_or_full(self._etcd.status, TIMEOUT)
        room = self._room._replace(in_use=status.db_size_in_use)
        if room.free < 0:
            raise room.too_small("the load would use the reserve")


def _mib(size: int) -> int:
    return -(-size >> 20)
