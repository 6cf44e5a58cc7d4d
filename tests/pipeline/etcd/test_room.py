"""The room that etcd has for a load, as its status and its metrics show it."""

import random

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin
from pipeline.etcd.requests import LoadRefused
from pipeline.etcd.room import Looks, Room, room_in
from pipeline.etcd.writer import write
from proxy.etcd.metrics import QUOTA, Metrics
from proxy.etcd.model import Put, Txn
from schema.keys import Keyspace
from tests.pipeline.etcd.rows import batches, row

KEYS = Keyspace("/t")
RANDOM = random.Random(1)


class Shown:
    """etcd's metrics; a quota of 0 is not shown."""

    def __init__(self, quota: int) -> None:
        self.samples = {QUOTA: float(quota)} if quota else {}

    async def __call__(self, _endpoint: str) -> Metrics | None:
        return Metrics(self.samples, 0.0)


async def hidden(_endpoint: str) -> Metrics | None:
    return None


@pytest.fixture
async def used() -> FakeEtcdClient:
    """An etcd in which another tree has 20 MiB."""
    etcd = FakeEtcdClient(FakeEtcd())
    for number in range(20):
        await etcd.txn(Txn((), (Put(b"/other/%d" % number, bytes(1 << 20)),)), 1)
    return etcd


async def test_the_room_is_the_quota_less_the_reserve_and_what_is_in_use(used: FakeEtcdClient) -> None:
    room = await room_in(used, Shown(100 << 20))
    assert room is not None
    assert room.free == pytest.approx(70 << 20, rel=0.01)
    room.check(50 << 20)
    with pytest.raises(LoadRefused, match=r"about 72 MiB, 21 of 100 MiB are in use, and 10 MiB are kept"):
        room.check(64 << 20)


@pytest.mark.parametrize("metrics", [hidden, Shown(0), Shown(-1)])
async def test_an_etcd_without_a_quota_or_that_does_not_show_it(used: FakeEtcdClient, metrics: Shown) -> None:
    assert await room_in(used, metrics) is None


async def test_a_load_ends_before_others_have_no_reserve(used: FakeEtcdClient) -> None:
    """A stream's size is not known before, and others write meanwhile."""
    rows = [row("/"), *(row(f"/{number:02}", data=RANDOM.randbytes(1 << 20)) for number in range(30))]
    begun = await begin(used, KEYS)
    with pytest.raises(LoadRefused, match="the load would use the reserve"):
        await write(used, KEYS, begun, batches(rows, 1), Limits(), Looks(used, Room(40 << 20, 0)))
    assert used.store.file.in_use < 41 << 20
    await write(used, KEYS, begun, batches(rows, 1), Limits(), Looks(used, Room(100 << 20, 0)))
