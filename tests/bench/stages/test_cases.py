"""A run leaves the tree that its replies promise, asks etcd for what it must, and leaves no reads behind."""

import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.errors import BadReply, EffectsDiffer
from bench.stages import cases
from bench.stages.cases import Case, drive, run, serving
from bench.stages.clients import Asker, Loader
from bench.stages.meter import Meter
from bench.workloads import WORKLOADS, Create, preparation


def test_a_wrong_tree_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Create.verify
    monkeypatch.setattr(
        Create, "verify", lambda self, admin, counts: right(self, admin, [count + 1 for count in counts])
    )
    with pytest.raises(EffectsDiffer, match="children of"):
        run(Case("create", 2, 2), each=3, warm_up=1)


def test_a_wrong_reply_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its directories' nodes each create fails."""
    monkeypatch.setattr(cases, "preparation", lambda _workload: iter(()))
    with pytest.raises(BadReply):
        run(Case("set", 1, 1), each=3, warm_up=1)


@asynccontextmanager
async def loading(name: str) -> AsyncIterator[list[Loader]]:
    """Clients of a workload that have all that the proxy keeps for them."""
    meter = Meter()
    async with serving(meter) as (server, _):
        workload = WORKLOADS[name](b"/bench", 2, 2)
        admin = Asker(server, meter)
        await admin.connected()
        for requests in preparation(workload):
            await admin.call_many(requests)
        loaders = [Loader(server, meter, workload.stream(number), 10) for number in range(2)]
        for loader in loaders:
            await loader.connected()
        await drive(loaders, 300)
        yield loaders


@pytest.mark.parametrize("name", ["get", "exists", "children"])
async def test_reads_leave_nothing_in_memory(name: str) -> None:
    async with loading(name) as loaders:
        left: list[int] = []
        for _ in range(3):  # servers of other tests allocate, too
            gc.collect()
            before = sys.getallocatedblocks()
            await drive(loaders, 1000)
            gc.collect()
            left.append(sys.getallocatedblocks() - before)
        assert min(left) < 100


@pytest.mark.parametrize("name", ["set", "mixed"])
async def test_sets_leave_no_objects_of_the_proxy(name: str) -> None:
    async with loading(name) as loaders:
        before = _objects_of_the_proxy()
        await drive(loaders, 300)
        grown = _objects_of_the_proxy() - before
        assert grown.total() < 10, grown


def _objects_of_the_proxy() -> Counter[str]:
    """How many there are of each class, beside what the fake etcd may keep."""
    gc.collect()
    names = (f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects())
    return Counter(
        name for name in names if name.startswith("proxy.") and not name.startswith("proxy.etcd.model.")
    )
