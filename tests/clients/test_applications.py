"""Applications in Python that keep their things in ZooKeeper, and aiozk, a client beside kazoo.

Each test does what an application's user does, on both servers. docs/applications.md lists what was seen.
"""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiozk
import pytest
from aiozk.exc import TimeoutError as AiozkTimeout
from apscheduler.jobstores.zookeeper import ZooKeeperJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from kombu import Connection

from lab.servers import EtcdServer, wait_until
from lab.servers.process import ServerProcess
from tests.clients.conftest import two_servers

pytestmark = pytest.mark.real

Pair = tuple[ServerProcess, ServerProcess]

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def servers(etcd_server: EtcdServer) -> Iterator[Pair]:
    with two_servers(etcd_server, f"/test-applications-{os.getpid()}") as started:
        yield started


# kombu: the messages of Celery


@contextmanager
def tasks_at(server: ServerProcess) -> Iterator[Any]:
    """One queue of messages, by a connection to this server."""
    with Connection(f"zookeeper://{server.address}/kombu") as connection:
        tasks = connection.SimpleQueue("tasks")
        try:
            yield tasks
        finally:
            tasks.close()
            # kombu leaves its client of ZooKeeper running.
            tasks.channel.client.stop()
            tasks.channel.client.close()


def test_kombu_delivers_each_message_once(servers: Pair) -> None:
    with tasks_at(servers[0]) as one, tasks_at(servers[1]) as two:
        both = (one, two)
        for number in range(20):
            both[number % 2].put({"number": number}, priority=number % 3)
        got = []
        for number in range(20):
            message = both[number % 2].get(timeout=TIMEOUT_S)
            got.append(message.payload["number"])
            message.ack()
        assert sorted(got) == list(range(20))
        for tasks in both:
            with pytest.raises(tasks.Empty):
                tasks.get(block=False)


# APScheduler's jobs

_ran = threading.Event()


def job() -> None:
    """What is scheduled. The job store keeps its name: it is no method and no function inside another."""
    _ran.set()


@contextmanager
def scheduler_on(server: ServerProcess, paused: bool) -> Iterator[Any]:
    store = ZooKeeperJobStore(path="/apscheduler", hosts=server.address, close_connection_on_exit=True)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=paused)
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def test_apscheduler_finds_its_jobs_on_the_other_server(servers: Pair) -> None:
    with scheduler_on(servers[0], paused=True) as scheduler:
        scheduler.add_job(job, "interval", hours=1, id="hourly")
        scheduler.add_job(job, "date", run_date=datetime.now(UTC) + timedelta(hours=1), id="once")
    with scheduler_on(servers[1], paused=False) as other:
        other.modify_job("once", next_run_time=datetime.now(UTC), misfire_grace_time=None)
        assert _ran.wait(TIMEOUT_S)
        wait_until(lambda: [job.id for job in other.get_jobs()] == ["hourly"], "what ran is gone", TIMEOUT_S)
        ahead = other.get_job("hourly").next_run_time - datetime.now(UTC)
        assert timedelta() < ahead <= timedelta(hours=1)
        other.remove_job("hourly")
        assert other.get_jobs() == []


# aiozk


def test_aiozk_and_its_recipes(servers: Pair) -> None:
    asyncio.run(asyncio.wait_for(_aiozk_at_work(servers), TIMEOUT_S))


async def _aiozk_at_work(servers: Pair) -> None:
    one, two = (aiozk.ZKClient(server.address, session_timeout=30) for server in servers)
    await one.start()
    await two.start()
    try:
        await one.ensure_path("/aiozk/deep")
        await one.create("/aiozk/mine", b"1", ephemeral=True)
        transaction = one.begin_transaction()
        transaction.create("/aiozk/both")
        transaction.set_data("/aiozk/both", b"2")
        assert await transaction.commit()

        async with one.recipes.Lock("/aiozk/lock"):
            with pytest.raises(AiozkTimeout):
                await two.recipes.Lock("/aiozk/lock").acquire(timeout=0.5)
        async with two.recipes.Lock("/aiozk/lock"):
            pass  # free again

        barriers = [client.recipes.DoubleBarrier("/aiozk/barrier", 2) for client in (one, two)]
        await asyncio.gather(*(barrier.enter() for barrier in barriers))
        await asyncio.gather(*(barrier.leave() for barrier in barriers))

        # Having passed the barrier, the second has seen all that the first did before.
        assert await two.get_data("/aiozk/both") == b"2"
        assert "mine" in await two.get_children("/aiozk")
        gone = two.wait_for_events([aiozk.WatchEvent.DELETED], "/aiozk/mine")
        assert await two.exists("/aiozk/mine", watch=True)
        await one.close()
        await gone
    finally:
        await two.close()
