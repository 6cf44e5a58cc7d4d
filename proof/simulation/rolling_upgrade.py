"""A rolling upgrade of a simulated world's proxies, and the raise of the level after it."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from proof.simulation import seams
from proof.simulation.oracle import Oracle
from proof.simulation.proxies import Proxy, upgrade
from proof.simulation.world import Host, World

_LIMIT = 120.0  # seconds until the level is raised
_POLL = 0.5


class Upgrade(NamedTuple):
    """One upgrade."""

    world: World
    rng: Random
    proxies: Sequence[Proxy]
    oracle: Oracle
    violate: Callable[[str], None]
    recover: Callable[[str], None]
    """Waits until everything works after what is named."""
    is_broken: Callable[[], bool]

    def roll(self) -> None:
        """A rolling upgrade, with the raise of the level tried at each stage: it must not come too early."""
        world, rng = self.world, self.rng
        order = list(self.proxies)
        rng.shuffle(order)
        for proxy in order:
            self._raise(premature=True)
            proxy.kill(silently=rng.random() < 0.3)
            proxy.levels = seams.NEXT_LEVELS
            proxy.start()
            world.run(world.now + rng.choice((0.1, 3.0, 15.0)))
            self.recover(f"the upgrade of {proxy.name}")
            if self.is_broken():
                return
        deadline = world.now + _LIMIT
        while self.oracle.machine.level < seams.NEXT_LEVEL and not self.is_broken():
            if world.now > deadline:
                self.violate("the level could not be raised")
            for proxy in self.proxies:
                if proxy.server is not None:
                    proxy.server.snapshots.want()
            world.run(world.now + 5)
            self._raise(premature=False)
        world.trace("operator", f"the level is {self.oracle.machine.level}")

    def _raise(self, *, premature: bool) -> None:
        """An operator's command."""
        operator = Host(self.world, "operator")
        operator.levels = seams.NEXT_LEVELS
        said: list[str] = []

        async def run() -> None:
            said.append(await upgrade(self.proxies[0].client(operator), seams.NEXT_LEVEL, seams.NEXT_LEVELS))

        operator.call_soon(lambda: operator.create_task(run()))
        deadline = self.world.now + 60
        while not said and self.world.now < deadline:
            self.world.run(self.world.now + _POLL)
        operator.kill()
        self.world.trace("operator", f"raise-level: {said}")
        if premature and said == [""] and self.oracle.machine.level < seams.NEXT_LEVEL:
            self.violate("the level was raised although a proxy lives that does not know it")
