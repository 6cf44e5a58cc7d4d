"""Counts of requests and their latencies."""

from codec.constants import OpCode
from lab.client.meter import Meter


def test_what_is_counted() -> None:
    meter = Meter()
    meter.sent(OpCode.CREATE)
    meter.sent(OpCode.MULTI)
    meter.sent(OpCode.MULTI)
    meter.answered(1_500)
    meter.answered(1_999)
    meter.answered(2_000_000)
    assert meter.requests == {"CREATE": 1, "MULTI": 2}
    assert meter.latencies == {1: 2, 2000: 1}
    meter.notified()
    meter.opened()
    meter.stop()
    meter.sent(OpCode.CREATE)
    meter.answered(5)
    meter.notified()
    meter.opened()
    assert (meter.requests.total(), meter.latencies.total(), meter.events, meter.sessions) == (3, 3, 1, 1)
    meter.restart()
    assert (meter.requests.total(), meter.latencies.total(), meter.events, meter.sessions) == (0, 0, 0, 0)
