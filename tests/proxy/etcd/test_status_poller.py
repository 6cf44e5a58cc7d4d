"""The status that is asked for now and then."""

import asyncio
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.status_poller import StatusPoller


async def test_the_last_answer_is_kept_when_etcd_is_gone() -> None:
    client = FakeEtcdClient(FakeEtcd())
    client.unreachable = True
    poller = StatusPoller(client)
    with mock.patch("proxy.etcd.status_poller._INTERVAL", 0.0):
        task = asyncio.get_running_loop().create_task(poller.run())
        for _ in range(5):
            await asyncio.sleep(0)
            assert not poller.status
        client.unreachable = False
        async with asyncio.timeout(10):
            while not poller.status:  # noqa: ASYNC110
                await asyncio.sleep(0)
        found = poller.status
        client.unreachable = True
        for _ in range(5):
            await asyncio.sleep(0)
        assert poller.status is found
        assert not task.done()
        task.cancel()


async def test_a_version_with_known_bugs_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeEtcdClient(FakeEtcd())
    with mock.patch("proxy.etcd.status_poller._INTERVAL", 0.0):
        task = asyncio.get_running_loop().create_task(StatusPoller(client).run())
        for version, warned in (("3.4.23", 1), ("3.4.23", 1), ("3.5.21", 1), ("3.5.12", 2)):
            client.store.version = version
            for _ in range(6):
                await asyncio.sleep(0)
            assert caplog.text.count("issue 15247") == warned
        task.cancel()
