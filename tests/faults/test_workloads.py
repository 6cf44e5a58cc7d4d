"""The workloads of examples/ on proxies and etcd members that are killed and paused: the invariants hold.

ZKETCD_TEST_WORKLOAD_ROUNDS makes it longer: so often each fault comes.
"""

import asyncio
import os
from collections.abc import Callable

from examples.database_replicated.__main__ import WORKLOAD
from examples.database_replicated.ledger import Ledger
from examples.database_replicated.run import run
from examples.program import Surroundings, parser
from lab.client.meter import Meter
from lab.client.requests import create
from lab.client.session import Address, connected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import count_keys
from lab.servers.waiting import eventually
from tests.faults.cluster import Cluster, running_cluster
from tests.faults.conftest import Start

_ROUNDS = int(os.environ.get("ZKETCD_TEST_WORKLOAD_ROUNDS", "1"))
_PROXIES = 3
_LEASE_S = 2
_LIMIT_S = 120.0


def _kill(proxy: ZketcdServer) -> None:
    proxy.kill()
    proxy.start()


def _pause(proxy: ZketcdServer, etcd: EtcdServer) -> None:
    """Until its lease has run out."""

    def alive(count: int) -> bool:
        return count_keys(etcd, "/zketcd/live/proxy/") == count

    wait_until(lambda: alive(_PROXIES), "all proxies are members", _LIMIT_S)
    proxy.pause()
    try:
        wait_until(lambda: alive(_PROXIES - 1), "the lease to run out", _LIMIT_S)
    finally:
        proxy.resume()


def _kill_leader(cluster: Cluster) -> None:
    leader = cluster.leader()
    leader.kill()
    cluster.leader()
    leader.start()


async def test_database_replicated(start: Start) -> None:
    with running_cluster() as cluster:
        proxies = [start(cluster.endpoints, proxy_lease=_LEASE_S) for _ in range(_PROXIES)]
        addresses = [Address("127.0.0.1", proxy.port) for proxy in proxies]
        faults: list[Callable[[], None]] = [
            lambda: _kill(proxies[0]),
            lambda: _pause(proxies[1], cluster.members[0]),
            lambda: _kill_leader(cluster),
        ]

        async def fail(ledger: Ledger) -> None:
            for fault in faults * _ROUNDS:
                await asyncio.to_thread(fault)
                last = ledger.last

                async def moved(last: int = last) -> bool:
                    return ledger.last > last + 3

                await eventually(moved, f"entries after {last}", _LIMIT_S)

        options = parser(WORKLOAD).parse_args(["localhost:1", "--seconds", "0.5", "--replicas", "6"])
        options.losses, options.session_timeout, options.logs_to_keep = 0, 3.0, 10
        async with connected(addresses) as session:
            await session.call(create("/database"))
        found = await run(Surroundings(addresses, "/database", Meter()), options, meanwhile=fail)
        assert found.facts["sessions begun again, after the timed part"] > 0, "the faults were felt"
