"""Faults of all servers, one after the other, while a workload of `examples` runs in this process.

Proxies are killed and paused, etcd's leader is killed; each is back soon. A workload gets this as what
happens meanwhile, and runs until it is over.
"""

import asyncio
from collections.abc import Sequence

from examples.zero_copy.surroundings import Connecting
from lab.client.session import Address
from lab.servers import ZketcdServer
from lab.servers.clusters import Cluster
from lab.servers.process import ServerProcess

CONNECTING = Connecting(session_timeout_ms=4_000, operation_timeout_s=3.0)
"""For hosts: a pause of _ASLEEP_S is longer than they wait for an answer."""
_BETWEEN_S = 0.7
_ASLEEP_S = 4.5


def addresses(proxies: Sequence[ZketcdServer]) -> list[Address]:
    """Where the proxies listen."""
    return [Address("127.0.0.1", proxy.port) for proxy in proxies]


async def faults(cluster: Cluster, proxies: Sequence[ZketcdServer]) -> None:
    """A proxy is killed, another one sleeps for longer than its clients wait, etcd's leader is killed."""
    await asyncio.sleep(_BETWEEN_S)
    proxies[0].kill()
    await asyncio.sleep(_BETWEEN_S)
    await _start(proxies[0])
    await asyncio.to_thread(proxies[1].pause)
    await asyncio.sleep(_ASLEEP_S)
    proxies[1].resume()
    leader = await asyncio.to_thread(cluster.leader)
    leader.kill()
    await asyncio.sleep(_BETWEEN_S)
    proxies[-1].kill()
    await _start(leader)
    await _start(proxies[-1])


async def _start(server: ServerProcess) -> None:
    """Not in a thread of the loop: the kernel ends a server with the thread that has started it."""
    server.launch()
    await asyncio.to_thread(server.wait_until_serving)
