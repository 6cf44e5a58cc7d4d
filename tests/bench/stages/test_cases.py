"""A run leaves the tree that its replies promise, asks etcd for what it must, and leaves no reads behind."""

import asyncio
import gc
import sys

import pytest

from bench.errors import BadReply, EffectsDiffer, Stalled
from bench.stages import cases
from bench.stages.cases import Case, run
from bench.stages.clients import until
from bench.workloads import WORKLOADS, Asker, Create


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_is_verified(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` asks the workload to verify the tree, with what was answered."""
    asked = []

    def verify(_workload: object, _admin: Asker, counts: list[int]) -> None:
        asked.append(list(counts))

    monkeypatch.setattr(WORKLOADS[name], "verify", verify)
    assert run(Case(name, 3, 4), each=10, warm_up=5).requests == 30
    assert asked == [[15, 15, 15]]


def test_a_wrong_tree_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Create.verify
    monkeypatch.setattr(
        Create,
        "verify",
        lambda self, admin, counts: right(self, admin, [count + 1 for count in counts]),
    )
    with pytest.raises(EffectsDiffer, match="children of"):
        run(Case("create", 2, 2), each=3, warm_up=1)


def test_a_wrong_reply_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its directories' nodes each create fails."""
    monkeypatch.setattr(cases, "preparation", lambda _workload: iter(()))
    with pytest.raises(BadReply):
        run(Case("set", 1, 1), each=3, warm_up=1)


async def test_who_waits_in_vain_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.stages.clients._PATIENCE", 10)
    with pytest.raises(Stalled):
        await until(lambda: False)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_reads_leave_nothing_in_memory() -> None:
    """Of as many reads again no object stays."""
    kept = []
    for each in (100, 2100):
        run(Case("get", 2, 10), each, warm_up=256)
        gc.collect()
        before = sys.getallocatedblocks()
        run(Case("get", 2, 10), each, warm_up=256)
        gc.collect()
        kept.append(sys.getallocatedblocks() - before)
    assert kept[1] - kept[0] < 400  # of 4,000 more reads
