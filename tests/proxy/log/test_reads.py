"""Answers that are older than those before them are not believed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Get, Put, Txn
from proxy.log import reads
from proxy.log.reads import MonotonicReads, OldAnswers

_READ = Txn((), (Get(b"k"),))


class World:
    """An etcd whose newest revision a test may hide."""

    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.client = FakeEtcdClient(self.store)
        for value in (b"1", b"2"):
            self.store.txn(Txn((), (Put(b"k", value),)))
        self.asked = 0

    def old(self, times: int) -> AbstractContextManager[object]:
        """The next reads are answered as of the revision before the newest."""
        ask = self.client.range

        async def answer(get: Get, timeout: float) -> object:
            self.asked += 1
            found = await ask(get, timeout)
            return found._replace(revision=found.revision - (self.asked <= times))

        return mock.patch.object(self.client, "range", answer)


@pytest.fixture
def world() -> Iterator[World]:
    with mock.patch.object(reads, "_OLD_PAUSE", 0.0):
        yield World()


async def test_an_old_answer_is_asked_for_again(world: World) -> None:
    etcd = MonotonicReads(world.client)
    assert (await etcd.txn(_READ, 1.0)).revision == 3
    with world.old(times=3):
        assert (await etcd.range(Get(b"k"), 1.0)).revision == 3
    assert world.asked == 4


async def test_the_first_answer_may_have_any_revision_and_later_ones_are_compared_with_it(
    world: World,
) -> None:
    etcd = MonotonicReads(world.client)
    with world.old(times=1):
        assert (await etcd.range(Get(b"k"), 1.0)).revision == 2
    assert (await etcd.status()).revision == 3


async def test_an_answer_to_the_last_try_counts(world: World) -> None:
    etcd = MonotonicReads(world.client, revision=3)
    with world.old(times=20):
        assert (await etcd.range(Get(b"k"), 1.0)).revision == 3
    assert world.asked == 21


async def test_answers_that_stay_old_are_an_error(world: World) -> None:
    etcd = MonotonicReads(world.client, revision=10)
    with pytest.raises(OldAnswers, match="of revision 3, and it has shown revision 10"):
        await etcd.txn(_READ, 1.0)
