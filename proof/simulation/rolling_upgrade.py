"""A rolling upgrade of a simulated world's proxies, and the raise of the level after it."""

from typing import TYPE_CHECKING

from proof.simulation import seams
from proof.simulation.proxies import upgrade
from proof.simulation.world import Host

if TYPE_CHECKING:
    from proof.simulation.simulation import Simulation

#: The levels that an upgraded server knows.
BOTH = frozenset((1, seams.NEXT_LEVEL))
_LIMIT = 120.0  # seconds until the level is raised
_POLL = 0.5


def roll(simulation: "Simulation") -> None:
    """A rolling upgrade, with the raise of the level tried at each stage: it must not come too early."""
    world, rng = simulation.world, simulation.plan
    order = simulation.proxies[:]
    rng.shuffle(order)
    for proxy in order:
        _raise(simulation, premature=True)
        proxy.kill(silently=rng.random() < 0.3)
        proxy.levels = BOTH
        proxy.start()
        world.run(world.now + rng.choice((0.1, 3.0, 15.0)))
        simulation.recover(f"the upgrade of {proxy.name}")
        if simulation.broken:
            return
    deadline = world.now + _LIMIT
    while simulation.oracle.machine.level < seams.NEXT_LEVEL and not simulation.broken:
        if world.now > deadline:
            simulation.violate("the level could not be raised")
        for proxy in simulation.proxies:
            if proxy.server is not None:
                proxy.server.snapshots.want()
        world.run(world.now + 5)
        _raise(simulation, premature=False)
    world.trace("operator", f"the level is {simulation.oracle.machine.level}")


def _raise(simulation: "Simulation", *, premature: bool) -> None:
    """An operator's command."""
    operator = Host(simulation.world, "operator")
    operator.levels = BOTH
    said: list[str] = []

    async def run() -> None:
        said.append(await upgrade(simulation.proxies[0].client(operator), seams.NEXT_LEVEL, BOTH))

    operator.call_soon(lambda: operator.create_task(run()))
    deadline = simulation.world.now + 60
    while not said and simulation.world.now < deadline:
        simulation.world.run(simulation.world.now + _POLL)
    operator.kill()
    simulation.world.trace("operator", f"raise-level: {said}")
    if premature and said == [""] and simulation.oracle.machine.level < seams.NEXT_LEVEL:
        simulation.violate("the level was raised although a proxy lives that does not know it")
