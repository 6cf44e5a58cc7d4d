"""Txns that a stock etcd takes, which are sent again while their outcome is unknown; what refusals say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from pipeline.etcd import requests
from pipeline.etcd.limits import Limits
from pipeline.etcd.requests import LoadRefused, commit, count
from proxy.etcd.model import Compare, EtcdRefused, EtcdUnknown, Put, RefusalKind, Txn, TxnResult, txn_size

GUARD = Compare(b"/t/tree", 7)
PUT = Txn((), (Put(b"/t/a", b""),))


async def test_a_lost_answer_is_asked_for_again() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    etcd.fates.extend([Fate.LOST, Fate.ANSWER_LOST])
    assert (await commit(etcd, PUT)).succeeded
    assert await count(etcd, b"/t/", b"/t0") == 1


async def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_LONGEST_OUTAGE", 0.0)
    etcd = FakeEtcdClient(FakeEtcd())
    etcd.fates.extend([Fate.LOST] * 5)
    with pytest.raises(EtcdUnknown):
        await commit(etcd, PUT)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(RefusalKind.TOO_LARGE, "--max-request-bytes"), (RefusalKind.TOO_MANY_OPS, "--max-txn-ops")],
)
async def test_a_refusal_names_the_option(kind: RefusalKind, reason: str) -> None:
    class Refusing(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            raise EtcdRefused(kind, "refused")

    with pytest.raises(LoadRefused, match=reason):
        await commit(Refusing(FakeEtcd()), PUT)


@given(st.lists(st.integers(0, 2000), max_size=300), st.integers(2, 40), st.integers(4000, 20_000))
def test_every_put_once_in_order_and_within_the_limits(sizes: list[int], most: int, room: int) -> None:
    puts = [Put(b"k%d" % number, bytes(size)) for number, size in enumerate(sizes)]
    groups = list(Limits(most, room).groups(puts, GUARD))
    assert [put for group in groups for put in group] == puts
    for group in groups:
        assert 0 < len(group) <= most
        assert txn_size(Txn((GUARD,), group)) <= room


def test_a_put_that_fits_nowhere_goes_alone() -> None:
    puts = [Put(b"a", b""), Put(b"b", bytes(5000)), Put(b"c", b"")]
    assert list(Limits(10, 1000).groups(puts, GUARD)) == [[put] for put in puts]
