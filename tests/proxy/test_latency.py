"""Latencies: minimum, average and maximum in whole milliseconds."""

from proxy.latency import Latency


def test_nothing_yet() -> None:
    latency = Latency()
    assert (latency.minimum(0), latency.average(0), latency.high) == (0, 0.0, 0)


def test_writes_alone() -> None:
    latency = Latency()
    for seconds in (0.0209, 0.0041, 0.0109):
        latency.note(seconds)
    assert (latency.minimum(3), latency.average(3), latency.high) == (4, round(34 / 3, 4), 20)


def test_reads_count_as_less_than_a_millisecond() -> None:
    latency = Latency()
    latency.note(0.012)
    assert (latency.minimum(4), latency.average(4), latency.high) == (0, 3.0, 12)
