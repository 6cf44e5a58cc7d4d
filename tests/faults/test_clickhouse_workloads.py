"""ClickHouse's workloads while proxies are killed and paused and etcd loses its leader: the invariants hold.

ZKETCD_TEST_WORKLOAD_ROUNDS makes it longer: so often all faults come.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from examples.program import Surroundings
from examples.replicated_merge_tree import run as merge_tree
from examples.replicated_merge_tree.world import Settings
from examples.zero_copy import run as zero_copy
from examples.zero_copy.host import Settings as ZeroCopySettings
from lab.client.meter import Meter
from lab.client.requests import create
from lab.servers import ZketcdServer
from tests.conftest import TICK_TIME_MS
from tests.faults import storm
from tests.faults.cluster import Cluster, running_cluster

_ROUNDS = int(os.environ.get("ZKETCD_TEST_WORKLOAD_ROUNDS", "1"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three members of etcd."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def proxies(cluster: Cluster) -> Iterator[list[ZketcdServer]]:
    """Three proxies that serve one tree."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ZketcdServer(cluster.endpoints, tick_time=TICK_TIME_MS, max_client_connections=0)
            )
            for _ in range(3)
        ]


async def surroundings(proxies: list[ZketcdServer], root: str) -> Surroundings:
    """An empty node for a run."""
    addresses = storm.addresses(proxies)
    session = await storm.CONNECTING.session(addresses)
    await session.call(create(root))
    await session.close()
    return Surroundings(addresses, root, Meter())


@pytest.mark.real
async def test_replicated_tables_and_zero_copy(cluster: Cluster, proxies: list[ZketcdServer]) -> None:
    """Both at once: starting the servers and waiting for their leases is what takes the time."""
    over = asyncio.Event()

    async def faults() -> None:
        for _ in range(_ROUNDS):
            await storm.faults(cluster, proxies)
        over.set()

    async def wait() -> None:
        await over.wait()

    tables = merge_tree.run(
        await surroundings(proxies, "/merge-tree"),
        merge_tree.Shape(hosts=3, tables=2, writers=1, rate=40.0, seconds=1.0, losses=4 * _ROUNDS),
        Settings(storm.CONNECTING, least_to_merge=2, window=50, old_parts_s=1.0, logs_to_keep=10),
        seed=1,
        meanwhile=faults,
    )
    shared = zero_copy.run(
        await surroundings(proxies, "/zero-copy"),
        hosts=3,
        seconds=1.0,
        seed=1,
        settings=ZeroCopySettings(storm.CONNECTING, to_merge=2),
        meanwhile=wait,
    )
    async with asyncio.TaskGroup() as group:
        of_tables = group.create_task(tables)
        of_shared = group.create_task(shared)
    facts = of_tables.result().facts
    assert facts["session: done"] > 3, "a host has lost its session"
    for step in ("insert", "quorum insert", "fetch", "merge", "mutate", "drop partition", "DDL on all hosts"):
        assert facts[f"{step}: done"] > 0
    for step in ("clone of a replica", "part check", "search for a lost part"):
        assert facts[f"{step}: done"] > 0
    assert facts["parts given up"] > 0
    facts = of_shared.result().facts
    assert facts["session: done"] > 3, "a host has lost its session"
    for step in ("insert", "fetch", "merge", "unmark"):
        assert facts[f"{step}: done"] > 0
    assert facts["data deleted"] > 0
