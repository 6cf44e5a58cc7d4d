"""The status that is asked for now and then."""

import asyncio
import logging
from collections.abc import Sequence
from unittest import mock

import pytest

from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.metrics import QUOTA, Metrics, read
from proxy.etcd.model import Status
from proxy.etcd.status_poller import StatusPoller
from proxy.etcd.tls import Tls


def ignore(_versions: Sequence[str]) -> None:
    """The versions are what other tests are about."""


async def test_the_last_answer_is_kept_when_etcd_is_gone() -> None:
    client = FakeEtcdClient(FakeEtcd())
    client.unreachable = True
    learned: list[Sequence[str]] = []
    poller = StatusPoller(client, lambda _in_use, _quota: 0.0, learned.append)
    with (
        mock.patch.object(poller, "_interval", 0.0),
        mock.patch("proxy.etcd.status_poller._VERSIONS_EVERY", 0.0),
    ):
        task = asyncio.get_running_loop().create_task(poller.run())
        async with asyncio.timeout(10):
            while not learned:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert [poller.status] == [None]
        assert set(map(tuple, learned)) == {("",)}
        client.unreachable = False
        async with asyncio.timeout(10):
            while not poller.status:  # noqa: ASYNC110
                await asyncio.sleep(0)
            while [client.store.version] not in learned:  # noqa: ASYNC110
                await asyncio.sleep(0)
        found = poller.status
        client.unreachable = True
        for _ in range(5):
            await asyncio.sleep(0)
        assert poller.status is found
        assert not task.done()
        task.cancel()


async def test_a_size_that_stays_unknown_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    client, clock = FakeEtcdClient(FakeEtcd()), FakeClock(1000.0)
    poller = StatusPoller(client, lambda *_: 0.0, ignore, clock=clock)
    for fails in (True, False, True):
        client.unreachable = fails
        for _ in range(6):
            assert await poller.look() is not fails
            clock.now += 10
    for _ in range(6):
        assert not await poller.look()
        clock.now += 10
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    of_status = "etcd has not answered requests for its status for "
    assert [each.removeprefix(of_status)[:4] for each in warned if each.startswith(of_status)] == [
        "60 s",
        "90 s",
    ]


@mock.patch("proxy.etcd.status_poller._VERSIONS_EVERY", 0.0)
async def test_a_version_with_known_bugs_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeEtcdClient(FakeEtcd())
    task = asyncio.get_running_loop().create_task(StatusPoller(client, lambda *_: 0.0, ignore).run())
    for version, warned in (("3.4.23", 1), ("3.4.23", 1), ("3.5.21", 1), ("3.5.12", 2)):
        client.store.version = version
        for _ in range(6):
            await asyncio.sleep(0)
        assert caplog.text.count("issue 15247") == warned
    task.cancel()


async def test_a_member_that_hangs_does_not_delay_the_next_status() -> None:
    client = FakeEtcdClient(FakeEtcd())
    learned: list[int] = []

    def learn(in_use: int, _quota: int) -> float:
        learned.append(in_use)
        return 0.0

    async def hang(_timeout: float) -> list[str]:
        await asyncio.Event().wait()
        return []

    with mock.patch.object(client, "versions", hang):
        task = asyncio.get_running_loop().create_task(StatusPoller(client, learn, ignore).run())
        async with asyncio.timeout(10):
            while len(learned) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
        task.cancel()


async def test_what_is_told_to_root_alone_is_read_from_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeEtcdClient(FakeEtcd())
    learned: list[int] = []
    samples = {"etcd_mvcc_db_total_size_in_bytes": 9.0, "etcd_mvcc_db_total_size_in_use_in_bytes": 7.0}
    samples |= {'etcd_server_version{server_version="3.5.12"}': 1.0, "etcd_server_has_leader": 1.0}
    shown: list[Metrics | None] = [None, Metrics(samples, 0.0), None, None]
    alarms: list[list[str] | None] = [None, None, []]

    async def tell_little(_timeout: float) -> Status:
        return Status("", 5, 6, 0, 0, 0, 0, 2, 100, alarms.pop(0) if alarms else ["NOSPACE"])

    async def read_metrics(_endpoint: str) -> Metrics | None:
        return shown.pop(0) if shown else None

    def learn(in_use: int, _quota: int) -> float:
        learned.append(in_use)
        return 0.0

    poller = StatusPoller(client, learn, ignore, read_metrics)
    with mock.patch.object(client, "status", tell_little):
        task = asyncio.get_running_loop().create_task(poller.run())
        async with asyncio.timeout(10):
            while len(learned) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0)
        task.cancel()
    assert learned[:4] == [0, 7, 7, 7]
    assert poller.status == Status("3.5.12", 5, 6, 9, 7, 1, 0, 2, 100, ["NOSPACE"])
    assert caplog.text.count("does not tell this user its alarms") == 1
    assert caplog.text.count("etcd 3.5.12 may end the leases") == 1


async def test_the_quota_is_read_once_a_minute_and_a_failure_keeps_the_last_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = FakeEtcdClient(FakeEtcd())
    learned: list[int] = []
    quotas = iter((0, 8 << 30, 0))

    async def read_metrics(endpoint: str) -> Metrics:
        assert endpoint == client.endpoint
        return Metrics({QUOTA: next(quotas)}, 0.0)

    def learn(_in_use: int, quota: int) -> float:
        learned.append(quota)
        poller._quota_read -= 30.5
        return 0.0

    poller = StatusPoller(client, learn, ignore, read_metrics)
    task = asyncio.get_running_loop().create_task(poller.run())
    async with asyncio.timeout(10):
        while len(learned) < 6:  # noqa: ASYNC110
            await asyncio.sleep(0)
    task.cancel()
    assert learned[:6] == [0, 0, *4 * (8 << 30,)]
    assert caplog.text.count("does not show its quota") == 1


def test_a_quota_that_is_no_number_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the proxy."""
    answer = mock.MagicMock(headers={"Date": "Mon, 30 Nov 2026 12:00:00 GMT"})
    answer.__enter__.return_value = answer
    answer.read.return_value = f"{QUOTA} NaN\n".encode()
    monkeypatch.setattr("proxy.etcd.metrics.opened", lambda *_: answer)
    found = read("127.0.0.1:2379", Tls())
    assert found is not None
    assert found.quota == 0
