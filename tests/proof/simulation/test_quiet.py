"""While a world is quiet, periodic looks are rare, and at the times at which they would have come anyway."""

import asyncio

import pytest

from proof.simulation import quiet
from proof.simulation.world import Host, World


@pytest.mark.parametrize(
    ("at", "period", "pause"), [(10, 1.0, 30.0), (95, 2.0, 4.0), (95, 7.0, 7.0), (101, 1.0, 1.0)]
)
def test_a_pause_is_so_many_periods_as_fit(at: float, period: float, pause: float) -> None:
    world = World(1)
    world.quiet_until = 100.0
    world.run(at)
    assert world.stretched(period) == pause


def test_a_loop_is_back_at_its_period_when_the_quiet_ends() -> None:
    world = World(1)
    host = Host(world, "host")
    looks: list[float] = []
    shim = quiet._Asyncio()

    async def look() -> None:
        while True:
            looks.append(world.now)
            await shim.sleep(0.5)
            await shim.sleep(0.0)  # not a period: it yields, and that is all

    world.quiet_until = 100.0
    host.call_soon(lambda: host.create_task(look()))
    world.run(110)
    host.kill()
    early = [time for time in looks if time < 99]
    assert len(early) <= 5
    late = [time for time in looks if time >= 100]
    assert len(late) >= 20
    assert all(abs(time * 2 - round(time * 2)) < 1e-3 for time in looks)


def test_everything_but_sleep_is_asyncios() -> None:
    assert quiet._Asyncio().TaskGroup is asyncio.TaskGroup
