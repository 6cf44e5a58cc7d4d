"""Loads a simulated world's tree as a proxy does that starts now."""

from proof.simulation import seams
from proof.simulation.proxies import PREFIX, Proxy
from proof.simulation.world import Host, World
from proxy.log.load.start import load_as_of
from proxy.state.machine import Machine
from schema.keys import Keyspace

_LIMIT = 60.0  # seconds


def fresh_start(world: World, proxy: Proxy, *, even_sealed: bool = False) -> Machine | None:
    """The state that a fresh start has, with the etcd of a proxy; None if it does not come to an end."""
    loaded: list[Machine] = []
    operator = Host(world, "operator")
    operator.levels = seams.NEXT_LEVELS

    async def fresh() -> None:
        etcd = proxy.client(operator)
        loaded.append((await load_as_of(etcd, Keyspace(PREFIX), even_sealed=even_sealed)).machine)
        await etcd.close()
        world.stop()

    operator.call_soon(lambda: operator.create_task(fresh()))
    world.run(world.now + _LIMIT)
    operator.kill()
    return loaded[0] if loaded else None
