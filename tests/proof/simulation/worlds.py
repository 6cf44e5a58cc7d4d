"""Worlds for tests of what one kind of fault does, or one part of the simulation."""

from math import inf

from proof.simulation.simulation import Simulation


def small(seed: int, hours: float, faults: tuple[str, ...]) -> Simulation:
    """A stormy world without an upgrade and a backup: they take most of the time of a short one."""
    world = Simulation(seed, hours, faults)
    world.knobs = world.knobs._replace(upgrade=inf, backup=1.0)
    return world
