"""Requests are sent again while their outcome is unknown; messages of refusals say what to do."""

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from pipeline.etcd import requests
from pipeline.etcd.requests import LoadRefused, commit, count
from proxy.etcd.model import EtcdRefused, EtcdUnknown, Put, RefusalKind, Txn, TxnResult

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
