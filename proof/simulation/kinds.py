"""How each kind of world is simulated."""

import time
from collections.abc import Callable

from proof.simulation.calm import simulate_calm
from proof.simulation.outcome import Outcome
from proof.simulation.record import WorldSpec
from proof.simulation.simulation import Simulation, simulate
from proof.simulation.standby import simulate_standby


def _with_bugs(seed: int, hours: float, faults: tuple[str, ...]) -> Outcome:
    return simulate(seed, hours, faults, etcd_bugs=True)


def _with_defects(seed: int, hours: float, faults: tuple[str, ...]) -> Outcome:
    return Simulation(seed, hours, faults, defects=True).run()


#: By kind of world: what simulates one. Arguments: seed, hours, names of the only faults; (): all.
SIMULATED: dict[str, Callable[[int, float, tuple[str, ...]], Outcome]] = {
    "stormy": simulate,
    "calm": simulate_calm,
    "etcd-bugs": _with_bugs,
    "defects": _with_defects,
    "standby": simulate_standby,
}


def run(world: WorldSpec, faults: tuple[str, ...] = ()) -> Outcome:
    """Simulate a world. `faults`: the only ones there are; else all of its kind."""
    begun = time.process_time()
    outcome = SIMULATED[world.kind](world.seed, world.hours, faults)
    return outcome._replace(cpu=time.process_time() - begun)
