"""Simulated time, and hosts that are paused and killed."""

import asyncio

import pytest

from proof.simulation.world import Host, World


def test_time_jumps_to_the_next_timer() -> None:
    world = World(1)
    host = Host(world, "a")
    seen: list[float] = []

    async def sleep() -> None:
        for _ in range(3):
            await asyncio.sleep(1000)
            seen.append(round(world.now))

    host.create_task(sleep())
    world.run(2500)
    assert seen == [1000, 2000]
    assert world.now == 2500


def test_a_wait_too_short_for_the_clock_passes_all_the_same() -> None:
    """Else whoever waits for the rest of his time again and again stops the world's."""
    world = World(1)
    host = Host(world, "a")
    seen: list[float] = []

    async def wait() -> None:
        await asyncio.sleep(1e-14)
        seen.append(host.time())

    begun = host.time()
    host.create_task(wait())
    world.run(10)
    assert begun < seen[0] < begun + 0.001


def test_a_clock_that_drifts_and_one_that_is_wrong() -> None:
    world = World(1)
    right, wrong = Host(world, "a"), Host(world, "b", skew=60.0, drift=0.01)
    begun = wrong.time()
    world.run(100)
    assert round(wrong.time() - begun, 6) == 101
    assert round(wrong.wall() - right.wall(), 6) == 61


def test_what_is_due_during_a_pause_runs_afterwards_in_its_order() -> None:
    world = World(1)
    host = Host(world, "a")
    seen: list[int] = []
    for number in (2, 1, 3):
        host.call_later(number, seen.append, number)
    host.pause()
    world.run(2.5)
    assert seen == []
    host.resume()
    world.run(2.5)
    assert seen == [1, 2]
    world.run(10)
    assert seen == [1, 2, 3]


def test_a_killed_host_runs_nothing_more_but_its_finally_clauses() -> None:
    world = World(1)
    host = Host(world, "a")
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
            seen.append("went on")
        finally:
            seen.append("unwound")
            host.call_soon(seen.append, "ran after its death")

    host.create_task(work())
    world.run(5)
    host.kill()
    world.run(20)
    assert seen == ["unwound"]


def test_an_exception_that_nobody_handles_is_told() -> None:
    world = World(1)
    wrong: list[str] = []
    world.on_error = wrong.append
    host = Host(world, "a")
    host.call_soon(lambda: 1 // 0)
    world.run(1)
    assert len(wrong) == 1
    assert "ZeroDivisionError" in wrong[0]


def test_sets_of_tasks_have_the_order_of_their_making() -> None:
    world = World(1)
    host = Host(world, "a")

    async def nothing() -> None:
        """Nothing."""

    tasks = [host.create_task(nothing()) for _ in range(100)]
    assert list(set(tasks)) == tasks
    world.run(1)


@pytest.mark.parametrize(
    ("at", "period", "pause"), [(10, 1.0, 30.0), (95, 2.0, 4.0), (95, 7.0, 7.0), (101, 1.0, 1.0)]
)
def test_a_stretched_pause_is_as_many_periods_as_fit(at: float, period: float, pause: float) -> None:
    world = World(1)
    world.quiet_until = 100.0
    world.run(at)
    assert world.stretched(period) == pause


def test_a_loop_is_back_at_its_period_when_the_quiet_ends() -> None:
    world = World(1)
    host = Host(world, "host")
    host.stretched = world.stretched
    looks: list[float] = []

    async def look() -> None:
        while True:
            looks.append(world.now)
            await asyncio.sleep(0.5)
            await asyncio.sleep(0.0)  # not a period: it yields, and that is all

    world.quiet_until = 100.0
    host.call_soon(lambda: host.create_task(look()))
    world.run(110)
    host.kill()
    early = [time for time in looks if time < 99]
    assert len(early) <= 5
    late = [time for time in looks if time >= 100]
    assert len(late) >= 20
    assert all(abs(time * 2 - round(time * 2)) < 1e-3 for time in looks)


def test_a_busy_host_runs_what_arrives_meanwhile_in_turn() -> None:
    world = World(1)
    host = Host(world, "slow")
    host.burn = 1.0
    ran: list[tuple[str, float]] = []

    def work(left: int) -> None:
        host.stopwatch()
        ran.append(("work", world.now))
        if left:
            host.call_soon(work, left - 1)

    host.call_soon(work, 3)
    host.call_soon_at(1.5, lambda: ran.append(("arrival", world.now)))
    world.run(10)
    assert [what for what, _ in ran] == ["work", "work", "arrival", "work", "work"]
    assert [round(when) for _, when in ran] == [0, 1, 2, 2, 3]
