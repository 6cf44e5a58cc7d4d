"""How late the loop is, on a clock that a test sets."""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator

import pytest
from typing_extensions import override

from lab.fakes.clock import FakeClock
from proxy.support.latency import Histogram
from proxy.support.pauses import watch_pauses
from tests.proxy.log.proxies import until

_SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """The collector asks for the time as well, whenever it runs."""
    gc.disable()
    yield
    gc.enable()


class Clocks(FakeClock):
    """The time and the CPU time of a process that is late at each look."""

    def __init__(self, late: float, used: float) -> None:
        super().__init__(step=late)
        self._used = used

    @override
    def process_time_ns(self) -> int:
        return int(self.looks * self._used * _SECOND / 2)


async def _watched(
    warn_seconds: float, clocks: Clocks, until_this: Callable[[], bool] | None = None
) -> Histogram:
    found = Histogram()
    before = list(gc.callbacks)
    watching = asyncio.get_running_loop().create_task(watch_pauses(found, warn_seconds, clocks, interval=0))
    await until(lambda: clocks.looks >= 6)
    if until_this is not None:
        gc.collect()
        await until(until_this)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert gc.callbacks == before
    return found


@pytest.mark.parametrize(
    ("used", "cause"),
    [
        (3.5, "a request or a piece of its own work held the event loop"),
        (0.0, "the host or the container did not let it run"),
    ],
)
async def test_a_long_pause_is_noted_and_logged_with_its_cause(
    used: float, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = await _watched(1.5, Clocks(2.0, used))
    assert found.count >= 2
    assert found.total == found.count * 2 * _SECOND
    assert caplog.records[0].levelno == logging.WARNING
    assert "this process paused for about 2000 ms" in caplog.messages[0]
    assert caplog.messages[0].endswith(cause)


@pytest.mark.parametrize("warn_seconds", [0.0, 2.5])
async def test_a_short_pause_is_only_noted(warn_seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    found = await _watched(warn_seconds, Clocks(2.0, 2.0))
    assert found.count >= 2
    assert caplog.records == []


@pytest.mark.long
async def test_the_time_of_the_collector_is_told(caplog: pytest.LogCaptureFixture) -> None:
    said = "2000 ms of them to collect garbage"
    await _watched(0.5, Clocks(2.0, 2.0), lambda: any(said in message for message in caplog.messages))
