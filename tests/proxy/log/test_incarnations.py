"""An etcd that refuses entries: how long a proxy serves, and what it reports."""

import asyncio

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import EtcdRefused, RefusalKind, Txn, TxnResult
from proxy.log.append import appender, registration
from proxy.log.context import LogSettings
from tests.proxy.log.proxies import Proxy, answered, until


class Forbidding(FakeEtcdClient):
    """Refuses every Txn while `forbids`, and counts what it has refused."""

    def __init__(self) -> None:
        super().__init__(FakeEtcd())
        self.forbids = False
        self.refused = 0

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        if self.forbids:
            self.refused += 1
            raise EtcdRefused(RefusalKind.PERMISSION, "permission denied")
        return await super().txn(txn, timeout)


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> Forbidding:
    monkeypatch.setattr(appender, "_REFUSED_PAUSE", 0.01)
    monkeypatch.setattr(registration, "_PAUSE", 0.01)
    return Forbidding()


async def _started(etcd: Forbidding, max_staleness: float) -> Proxy:
    proxy = await Proxy(etcd, settings=LogSettings(max_staleness=max_staleness)).start()
    await answered([proxy.open(1)])
    return proxy


async def test_a_short_refusal_changes_nothing(etcd: Forbidding) -> None:
    proxy = await _started(etcd, 60.0)
    before = proxy.log.incarnation
    etcd.forbids = True
    reply = proxy.create(1, "/x")
    await until(lambda: etcd.refused > 3)
    etcd.forbids = False
    await answered([reply])
    assert (reply.error, proxy.log.incarnation, proxy.stops) == (0, before, [])
    await proxy.stop()


async def test_clients_have_to_go_elsewhere_after_a_long_one_once(etcd: Forbidding) -> None:
    proxy = await _started(etcd, 0.0)
    before = proxy.log.incarnation
    etcd.forbids = True
    replies = []
    for path in ("/x", "/y"):  # an entry each
        replies.append(proxy.create(1, path))
        await asyncio.sleep(0)
    await until(lambda: etcd.refused > 6)
    assert proxy.stops == ["etcd refuses entries: permission denied"]
    etcd.forbids = False
    await answered(replies)
    assert [reply.error for reply in replies] == [0, 0]
    assert proxy.log.incarnation != before
    await proxy.stop()
