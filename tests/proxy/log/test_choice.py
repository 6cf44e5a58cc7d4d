"""Which way entries are appended, chosen by what the log gets done: soon the quicker one, at little cost."""

import itertools
import random
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from proxy.log.combine.choice import Choice, Done

_STEP = 0.02  # seconds between two looks
# Requests a second together and direct, before and after.
_CHANGES = list(itertools.permutations([(100, 150), (1000, 600), (500, 800)], 2))


class Seen(NamedTuple):
    """A moment."""

    together: bool
    usually: bool


class Log:
    """Clients keep it busy, at a rate that depends on the way."""

    def __init__(self, noise: float = 0.0, seed: int = 0, meeting: float = 0.9) -> None:
        """`meeting`: how many of the entries share a Txn with those of other proxies, while they may."""
        self.choice = Choice()
        self.meeting = meeting
        self._combined = 0.0
        self.now = 0.0
        self.requests = 0.0
        self._random = random.Random(seed)
        self._noise = noise
        self._luck = 1.0

    def run(self, seconds: float, together: float, direct: float) -> list[Seen]:
        """Time passes, at so many requests a second each way."""
        seen = []
        for step in range(round(seconds / _STEP)):
            if step % 12 == 0:
                self._luck = max(0.1, self._random.gauss(1, self._noise))
            self.now += _STEP
            done = _STEP * self._luck * (together if self.choice.together else direct)
            self.requests += done
            if self.choice.together:
                self._combined += self.meeting * done
            was = self.choice.together
            changed = self.choice.applied(self._done(), self.now)
            assert changed is (self.choice.together is not was)
            seen.append(Seen(self.choice.together, self.choice.usually_together))
        return seen

    def _done(self) -> Done:
        """Each entry has one request."""
        return Done(int(self.requests), int(self.requests), int(self._combined))


def _share(flags: Iterable[bool]) -> float:
    counted = list(flags)
    return sum(counted) / len(counted)


@pytest.mark.parametrize(
    ("together", "direct", "is_together"),
    [
        (1000, 1000, True),
        (1000, 500, True),
        (1000, 950, True),
        (1000, 1020, True),  # that is a tie, and together costs less
        (1000, 1060, False),
        (1000, 2000, False),
        (60, 90, False),
        (90, 60, True),
    ],
)
def test_the_quicker_way_is_the_usual_one(together: float, direct: float, is_together: bool) -> None:
    log = Log()
    log.run(8, together, direct)
    seen = log.run(120, together, direct)
    assert {moment.usually for moment in seen} == {is_together}
    trials = _share(moment.together is not is_together for moment in seen)
    assert 0 < trials < 0.05


@pytest.mark.parametrize(("before", "after"), _CHANGES)
def test_it_follows_the_load(before: tuple[float, float], after: tuple[float, float]) -> None:
    log = Log()
    log.run(60, *before)
    log.run(30, *after)
    together, direct = after
    assert {moment.usually for moment in log.run(60, *after)} == {together > direct}


def test_a_tie_goes_to_together() -> None:
    log = Log()
    log.run(60, 700, 1000)
    assert not log.choice.usually_together
    log.run(30, 1000, 1000)
    assert log.choice.usually_together


@pytest.mark.parametrize("direct", [700, 850, 1200, 1500])
def test_a_rate_that_varies_does_not_mislead_it_for_long(direct: float) -> None:
    right = []
    for seed in range(5):
        log = Log(0.2, seed)
        log.run(10, 1000, direct)
        right += [moment.usually is (direct < 1000) for moment in log.run(40, 1000, direct)]
    assert _share(right) > 0.9


def _until_a_trial(log: Log, rate: float) -> None:
    """Both ways have this rate, until a trial begins."""
    while log.choice.together is log.choice.usually_together:
        log.run(_STEP, rate, rate)


def test_clients_that_come_with_a_trial_do_not_make_it_better() -> None:
    log = Log()
    for _ in range(20):
        _until_a_trial(log, 500)
        log.run(0.6, 1000, 1000)
        log.now += 100
        assert log.choice.usually_together


def test_what_was_before_a_pause_is_not_compared() -> None:
    log = Log()
    for _ in range(20):
        log.run(_STEP, 700, 700)
        _until_a_trial(log, 700)
        while log.choice.together is not log.choice.usually_together:
            log.run(_STEP, 1000, 1000)
        log.now += 100
        log.run(0.3, 1000, 1000)
        log.now += 100
        assert log.choice.usually_together


def test_a_trial_ends_with_the_load() -> None:
    log = Log()
    _until_a_trial(log, 1000)
    log.now += 100
    assert log.run(_STEP, 1000, 1000)[-1].together


def test_a_few_trials_decide_nothing() -> None:
    log = Log()
    log.run(2.2, 500, 1000)
    assert log.choice.usually_together


@pytest.mark.parametrize("requests", [0, 1, 15])
def test_a_log_with_little_to_do_tries_nothing(requests: float) -> None:
    log = Log(meeting=1.0)
    assert {moment.together for moment in log.run(60, requests, 2 * requests)} == {True}


@pytest.mark.parametrize("rate", [3, 60, 1000])
def test_entries_that_meet_no_others_are_appended_directly(rate: float) -> None:
    log = Log(meeting=0.05)
    log.run(8, rate, rate)
    assert not any(moment.usually for moment in log.run(60, rate, rate))
    log.meeting = 0.9
    log.run(30, 1000, 900)
    assert log.choice.usually_together


@pytest.mark.parametrize("noise", [0, 0.1])
@pytest.mark.parametrize("alone", [20, 27.5, 33])
def test_clients_that_are_no_longer_alone_soon_append_together(alone: float, noise: float) -> None:
    log = Log(noise, meeting=0.05)
    trials = [moment.together for moment in log.run(alone, 80, 100)][-500:]
    assert 0 < _share(trials) < 0.1
    log.meeting = 0.9
    log.run(12, 500, 400)
    assert log.choice.usually_together


def test_a_short_burst_goes_the_usual_way() -> None:
    log = Log()
    for _ in range(20):
        log.now += 100
        assert all(moment.together for moment in log.run(1.0, 500, 1000))


def test_two_calls_at_one_moment_are_no_rate() -> None:
    choice = Choice()
    for moment in range(1000):
        for each in range(3):
            done = 100 * moment + each
            choice.applied(Done(done, done, done), moment / 10)
    assert choice.usually_together
