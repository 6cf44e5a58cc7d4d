"""What --start starts."""

import pytest

from examples.servers import started
from lab.client.requests import create, exists, sync
from lab.client.session import connect

pytestmark = pytest.mark.real


async def test_zketcd_as_two_proxies_and_a_zookeeper() -> None:
    with started(2) as (zketcd, zookeeper):
        assert (zketcd.label, zookeeper.label) == ("zketcd", "ZooKeeper")
        assert (len(zketcd.addresses), len(zookeeper.addresses)) == (2, 1)
        one, two = [await connect([address]) for address in zketcd.addresses]
        await one.call(create("/shared"))
        await two.call(sync("/"))
        assert await two.call(exists("/shared")) is not None
        other = await connect(zookeeper.addresses)
        assert await other.call(exists("/shared")) is None
        for session in (one, two, other):
            await session.close()
