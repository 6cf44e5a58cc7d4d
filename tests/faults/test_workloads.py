"""The zero-copy workload while proxies are killed and paused and etcd loses its leader: invariants hold.

ZKETCD_TEST_WORKLOAD_ROUNDS makes it longer: so often all faults come.
"""

import os

from codec.client import create
from examples.zero_copy.host import Settings
from examples.zero_copy.run import run
from examples.zero_copy.surroundings import Surroundings
from lab.client.meter import Meter
from lab.servers.clusters import running_cluster
from tests.faults import storm
from tests.faults.conftest import Start

_ROUNDS = int(os.environ.get("ZKETCD_TEST_WORKLOAD_ROUNDS", "1"))
_LEASE_S = 2  # less than a proxy sleeps


async def test_zero_copy(start: Start) -> None:
    """With hosts that begin on local disks, in two buckets."""
    with running_cluster() as cluster:
        proxies = [start(cluster.endpoints, proxy_lease=_LEASE_S) for _ in range(3)]
        addresses, root = storm.addresses(proxies), "/zero-copy"
        session = await storm.CONNECTING.session(addresses)
        await session.call(create(root))
        await session.close()

        async def faults() -> None:
            for _ in range(_ROUNDS):
                await storm.faults(cluster, proxies)

        found = await run(
            Surroundings(addresses, root, Meter()),
            hosts=3,
            seconds=1.0,
            seed=1,
            settings=Settings(storm.CONNECTING, to_merge=2, hybrid=True, buckets=2),
            meanwhile=faults,
        )
    facts = found.facts
    assert facts["session: done"] > 3, "a host has lost its session"
    for step in ("insert", "fetch", "copy", "move", "merge", "unmark"):
        assert facts[f"{step}: done"] > 0
    assert facts["data deleted"] > 0
