"""No request, and no clients that pipeline, hold the loop for long: the longest turn, in calls of functions.

A clock that advances by 6 ms at each look stands in for the real one, so that a slice of 5 ms ends at the
first look, however fast the machine is. So the figures depend on nothing but the code.
"""

import importlib

import pytest

from bench.scenarios import turns
from bench.scenarios.turns import WORKS
from proxy.frontend import connection, transport
from proxy.frontend import turns as turns_of_clients
from proxy.log.slices import Slices, StateWorker
from proxy.state.pause import AtOnce, Pause
from proxy.support.environment import Clock

# Modules that still read a clock of their own.
_CLOCKS = (("proxy.frontend.turns", "perf_counter"), ("proxy.frontend.connection", "perf_counter_ns"))
_LOOK = 6_000_000  # nanoseconds
# Calls in one turn: pieces of 512 parts, nodes or watches, or of 4,096 paths, with some calls for each.
_MOST = 26_000
_SIZES = {
    "checks": 8_000,
    "multi-read": 7_000,
    "set-watches": 7_000,
    "children": 17_000,
    "all-children": 17_000,
    "quota": 17_000,
    "fan-out": 170,
    "loaded": 7_000,
    "caught-up": 7_000,
    **{name: 6 for name in WORKS if name.startswith("pipelined-")},
}
# One packet, which is decoded and checked at a stretch (docs/connections.md).
_UNDIVIDED = {"acl"}
_PREPARED = 2_000  # of whatever takes long to prepare


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0

    def look() -> int:
        nonlocal now
        now += _LOOK
        return now

    clocks = {"perf_counter_ns": look, "perf_counter": lambda: look() * 1e-9}
    for name, clock in clocks.items():
        monkeypatch.setattr(Clock, name, staticmethod(clock))
    for module, name in _CLOCKS:
        monkeypatch.setattr(importlib.import_module(module), name, clocks[name], raising=False)


def _longest(name: str) -> int:
    size = _SIZES.get(name, _PREPARED)
    return turns.found(name, size / WORKS[name][1], counting=True).longest


@pytest.mark.parametrize("name", [name for name in WORKS if name not in _UNDIVIDED])
def test_no_turn_is_long(name: str) -> None:
    assert 0 < _longest(name) <= _MOST


@pytest.fixture
def _all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner in (Slices, StateWorker):
        monkeypatch.setattr(owner, "__call__", Pause.__call__)
    monkeypatch.setattr(AtOnce, "expect", Pause.expect)


@pytest.mark.usefixtures("_all_at_once")
@pytest.mark.parametrize("name", ["checks", "set-watches", "quota", "caught-up", "loaded"])
def test_that_is_seen_where_nothing_pauses(name: str) -> None:
    assert _longest(name) > _MOST


def test_that_is_seen_where_nothing_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_of_clients, "PERIOD", 1 << 62)
    for module in (connection, transport):
        monkeypatch.setattr(module, "PIECE", 1 << 62)
    monkeypatch.setattr(turns, "_IN_A_ROW", 1)
    monkeypatch.setitem(_SIZES, "pipelined-watches", 1)
    assert _longest("pipelined-watches") > _MOST
