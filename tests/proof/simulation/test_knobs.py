"""Each seed draws settings and limits, which its world uses and prints."""

from random import Random

import pytest

from proof.simulation import seams
from proof.simulation.__main__ import main
from proof.simulation.calm import Calm
from proof.simulation.knobs import Knobs, drawn, drawn_calm, usual
from proof.simulation.proxies import config
from proof.simulation.simulation import Simulation
from proof.simulation.world import World
from proxy.config import parse
from proxy.log import appender
from proxy.state.pause import LENGTHS


def test_many_seeds_draw_every_value_that_there_is() -> None:
    worlds = [drawn(seed, Random(seed)) for seed in range(100)]
    for name in Knobs._fields:
        assert len({getattr(knobs, name) for knobs in worlds}) > 1, name
    assert {knobs.lengths == LENGTHS for knobs in worlds[::2]} == {True}
    assert {knobs.lengths == LENGTHS for knobs in worlds[1::2]} == {False}


def test_the_servers_get_them() -> None:
    knobs = drawn(3, Random(3))._replace(lease=2, staleness=20, outstanding=10)
    settings = config(knobs)
    assert (settings.proxy_lease, settings.max_staleness, settings.global_outstanding_limit) == (2, 20, 10)
    assert (settings.tick_time, settings.snapshot_log_requests) == (knobs.tick, knobs.snapshot_requests)


@pytest.mark.parametrize("world", [Simulation, Calm])
def test_a_world_is_made_as_its_knobs_say(world: type[Simulation]) -> None:
    made = world(5, 0.1)
    assert len(made.proxies) == made.knobs.proxies
    assert made.proxies[0].snapshot_requests == made.knobs.snapshot_requests
    assert any(str(made.knobs) in line for line in made.world.lines)
    made._end()


def test_windows_are_those_of_the_world_while_it_runs() -> None:
    usual_window = appender._LEAST_WINDOW, appender._LARGEST_WINDOW
    knobs = usual(1, 1)._replace(window=(1, 1))
    with seams.installed(World(1), knobs):
        assert (appender._LEAST_WINDOW, appender._LARGEST_WINDOW) == (1, 1)
    assert usual_window == (appender._LEAST_WINDOW, appender._LARGEST_WINDOW)


def test_those_of_a_server_without_options_are_the_defaults() -> None:
    plain, settings = parse([]), config(usual(2, 1))
    for name in ("tick_time", "proxy_lease", "max_staleness", "global_outstanding_limit"):
        assert getattr(settings, name) == getattr(plain, name)
    assert drawn_calm(2, Random(2)).tick >= 2000


def test_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7", "--hours", "0.002"]) == 0
    assert f"\n  {drawn(7, World(7).random('knobs'))}\n" in capsys.readouterr().out
