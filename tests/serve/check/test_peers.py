"""The ports between proxies: one that is reached, one that is not, and a proxy that has none."""

import asyncio

from lab.servers import free_port
from proxy.log.living import LivingProxy
from schema.record import PeerPort, ProxyValue
from serve.check.finding import Grade
from serve.check.peers import check_peers


def _proxy(name: str, address: str) -> LivingProxy:
    return LivingProxy(name, 1, ProxyValue((1,), "test", peer_port=PeerPort(address, b"secret")))


async def _found(*living: LivingProxy, distance: float = 0.001) -> list[tuple[Grade, str]]:
    return [(finding.grade, finding.text) async for finding in check_peers(living, distance)]


async def test_the_option_is_recommended_where_it_pays() -> None:
    several = _proxy("a", ""), _proxy("b", "")
    said = "none of the 2 proxies has it: with it at all of them writes would take less CPU time"
    assert await _found(*several) == [(Grade.GOOD, said)]
    assert await _found(*several, distance=0.02) == []
    assert await _found(_proxy("a", "")) == []


async def test_a_port_that_is_reached_one_that_is_not_and_one_that_lacks() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    nowhere = f"127.0.0.1:{free_port()}"
    async with server:
        found = await _found(_proxy("a", address), _proxy("b", nowhere), _proxy("c", ""))
        assert found == [
            (Grade.DOUBTFUL, "proxy c lacks it: so each proxy appends its own entries"),
            (Grade.GOOD, f"{address} of proxy a can be reached"),
            (Grade.DOUBTFUL, found[2][1]),
        ]
        assert found[2][1].startswith(f"{nowhere} of proxy b cannot be reached: ")
        assert (await _found(_proxy("a", address)))[-1] == (
            Grade.GOOD,
            "proxy a, the eldest, appends for those that reach it, while that is quicker",
        )
