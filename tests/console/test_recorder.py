"""The history of the traffic: rates, the longest times, and of an hour as many points as of three minutes."""

import asyncio

import pytest

from codec.constants import OpCode
from console.answers.recorder import EVERY, Recorder
from proxy.admin.facts import Facts
from proxy.support.latency import Latency
from tests.console.consoles import alone
from tests.proxy.admin import subjects


def _noted(latency: Latency, opcode: int, nanos: int, count: int) -> None:
    latency.by_opcode[opcode].note(nanos, count)


def test_rates_and_times_are_those_between_two_samples() -> None:
    subject = subjects.subject_of()
    recorder = Recorder(Facts(subject))
    _noted(subject.latency, OpCode.GET_DATA, 1000, 50)  # before the console was there
    recorder.take(0.0)
    assert recorder.history(180)["reads"] == []
    _noted(subject.latency, OpCode.GET_DATA, 1000, 10)
    _noted(subject.latency, OpCode.SET_DATA, 3_000_000, 4)
    subject.counters.notifications += 6
    recorder.take(EVERY)
    recorder.take(2 * EVERY)
    found = recorder.history(180)
    assert (found["reads"], found["writes"]) == ([5.0, 0.0], [2.0, 0.0])
    assert (found["readTime"], found["writeTime"]) == ([1024, None], [1 << 22, None])
    assert (found["events"], found["everyMs"], found["points"]) == ([3.0, 0.0], 2000, 90)


@pytest.mark.long
def test_an_hour_has_no_more_points_and_hides_no_slow_moment() -> None:
    subject = subjects.subject_of()
    recorder = Recorder(Facts(subject))
    for place in range(2000):
        if place == 1500:
            _noted(subject.latency, OpCode.SET_DATA, 1 << 30, 1)
        recorder.take(place * EVERY)
    found = recorder.history(3600)
    assert (found["points"], found["everyMs"], len(found["writes"])) == (90, 40_000, 90)
    assert max(filter(None, found["writeTime"])) == 1 << 31
    assert sum(found["writes"]) * 40 == 1
    assert len(recorder.history(10**9)["reads"]) == 90


async def test_the_page_finds_a_history_when_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "run", asyncio.Event().wait)  # no samples but those of the test
    async with alone() as (where, operator):
        recorder = where.console.api.recorder
        recorder.take(1.0)
        await where.client(("/a", b""))
        recorder.take(3.0)
        found = await operator.got("traffic/history", seconds=180)
        assert found["writes"][-1] >= 1
        await operator.refused(400, "seconds", "traffic/history", seconds="x")
