"""The workloads of examples/ while proxies are killed and paused and etcd loses its leader: invariants hold.

ZKETCD_TEST_WORKLOAD_ROUNDS makes it longer: so often all faults come.
"""

import asyncio
import os

from codec.client import create
from examples.database_replicated import run as database
from examples.database_replicated.__main__ import WORKLOAD
from examples.database_replicated.ledger import Ledger
from examples.program import Surroundings, parser
from examples.zero_copy import run as zero_copy
from examples.zero_copy.host import Settings as ZeroCopySettings
from lab.client.meter import Meter
from lab.servers import ZketcdServer
from lab.servers.clusters import running_cluster
from lab.servers.waiting import eventually
from tests.faults import storm
from tests.faults.conftest import Start

_ROUNDS = int(os.environ.get("ZKETCD_TEST_WORKLOAD_ROUNDS", "1"))
_LEASE_S = 2  # less than a proxy sleeps


async def surroundings(proxies: list[ZketcdServer], root: str) -> Surroundings:
    """An empty node for a run."""
    addresses = storm.addresses(proxies)
    session = await storm.CONNECTING.session(addresses)
    await session.call(create(root))
    await session.close()
    return Surroundings(addresses, root, Meter())


async def test_all_workloads(start: Start) -> None:
    """All at once: starting the servers and waiting for their leases is what takes the time."""
    with running_cluster() as cluster:
        proxies = [start(cluster.endpoints, proxy_lease=_LEASE_S) for _ in range(3)]
        over = asyncio.Event()

        async def faults() -> None:
            for _ in range(_ROUNDS):
                await storm.faults(cluster, proxies)
            over.set()

        async def wait_for_entries(ledger: Ledger) -> None:
            await over.wait()
            last = ledger.last

            async def more() -> bool:
                return ledger.last > last + 3

            await eventually(more, f"entries after {last}", 120.0)

        shared = zero_copy.run(
            await surroundings(proxies, "/zero-copy"),
            hosts=3,
            seconds=1.0,
            seed=1,
            settings=ZeroCopySettings(storm.CONNECTING, to_merge=2, hybrid=True, buckets=2),
            meanwhile=faults,
        )
        options = parser(WORKLOAD).parse_args(["localhost:1", "--seconds", "0.5", "--replicas", "6"])
        options.losses, options.session_timeout, options.logs_to_keep = 0, 3.0, 10
        entries = database.run(await surroundings(proxies, "/database"), options, meanwhile=wait_for_entries)
        async with asyncio.TaskGroup() as group:
            of_shared = group.create_task(shared)
            of_entries = group.create_task(entries)
        facts = of_shared.result().facts
        assert facts["session: done"] > 3, "a host has lost its session"
        for step in ("insert", "fetch", "copy", "move", "merge", "unmark"):
            assert facts[f"{step}: done"] > 0
        assert facts["data deleted"] > 0
        facts = of_entries.result().facts
        assert facts["sessions begun again, after the timed part"] > 0, "the faults were felt"
