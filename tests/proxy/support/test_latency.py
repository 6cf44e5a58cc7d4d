"""Histograms, extremes that can be forgotten, and what a connection knows of its last request."""

from codec.constants import OpCode
from proxy.support.latency import ConnectionLatency, Histogram, Latency, RoundTrip
from tests.table import one_by_one

MS = 1_000_000


def _latency() -> Latency:
    return Latency({OpCode.GET_DATA: False, OpCode.EXISTS: False, OpCode.SET_DATA: True})


@one_by_one(("nanos", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), ((1 << 40) - 1, 40)])
def test_a_time_falls_into_the_bucket_whose_end_is_above_it(nanos: int, bucket: int) -> None:
    histogram = Histogram()
    histogram.note(nanos, 3)
    assert [place for place, count in enumerate(histogram.buckets) if count] == [bucket]
    assert (histogram.count, histogram.total) == (3, 3 * nanos)
    assert nanos < 1 << bucket


def test_quantiles_are_the_ends_of_buckets() -> None:
    histogram = Histogram()
    assert histogram.quantile(0.5) == 0
    histogram.note(100, 90)
    histogram.note(1000, 10)
    assert [histogram.quantile(share) for share in (0.0, 0.5, 0.9, 0.91, 1.0)] == [128, 128, 128, 1024, 1024]


def test_histograms_add_and_subtract() -> None:
    one, two = Histogram(), Histogram()
    one.note(5)
    two.note(5)
    two.note(70, 2)
    both = one.plus(two)
    assert (both.count, both.total) == (4, 150)
    rest = both.since(one)
    assert (rest.buckets, rest.total) == (two.buckets, two.total)


def test_requests_are_counted_by_operation_and_connection() -> None:
    latency = _latency()
    connection, other = ConnectionLatency(latency), ConnectionLatency(latency)
    connection.note(OpCode.GET_DATA, 2, 7, 99, 1 * MS, 4 * MS)
    connection.note(OpCode.SET_DATA, 1, 8, 100, 0, 30 * MS)
    other.note(OpCode.PING, 1, -2, 100, 5, 5)
    assert (connection.minimum, connection.average, connection.maximum) == (3, 12, 30)
    assert connection.last == (OpCode.SET_DATA, 100, 30 * MS, 30 * MS)
    assert connection.last_xid == 8
    assert other.last_xid == -1  # a ping's xid is none of the client's own
    assert (latency.minimum, latency.average, latency.maximum) == (0, 9.0, 30)
    assert latency.total(updates=True).count == 1
    assert latency.total(updates=False).count == 3


def test_all_requests_of_a_chunk_are_counted() -> None:
    latency = _latency()
    connection = ConnectionLatency(latency)
    connection.note(OpCode.EXISTS, 3, 9, 1, 0, 2 * MS)
    connection.note_earlier([(OpCode.GET_DATA, 2), (OpCode.EXISTS, 1)], 2 * MS)
    counts = {opcode: histogram.count for opcode, histogram in latency.by_opcode.items() if histogram.count}
    assert counts == {OpCode.EXISTS: 4, OpCode.GET_DATA: 2}
    assert (connection.count, connection.nanos) == (6, 12 * MS)
    assert connection.last[0] == OpCode.EXISTS


def test_a_reset_forgets_what_the_words_tell_and_no_more() -> None:
    latency = _latency()
    connection = ConnectionLatency(latency)
    connection.note(OpCode.SET_DATA, 1, 1, 1, 0, 30 * MS)
    latency.reset()
    assert (latency.minimum, latency.average, latency.maximum) == (0, 0.0, 0)
    assert latency.recent(updates=True).count == 0
    assert latency.total(updates=True).count == 1
    assert connection.maximum == 30
    connection.note(OpCode.SET_DATA, 1, 2, 2, 0, 10 * MS)
    assert (latency.minimum, latency.average, latency.maximum) == (10, 10.0, 10)
    connection.reset()
    assert (connection.minimum, connection.average, connection.maximum) == (0, 0, 0)
    assert (connection.last_xid, connection.count) == (-1, 0)
    assert latency.maximum == 10


def test_a_round_trip_is_the_smallest_time_of_late() -> None:
    trip = RoundTrip()
    assert trip.seconds == 0.0
    for seconds, smallest in ((0.5, 0.5), (0.2, 0.2)):
        trip.note(seconds)
        assert trip.seconds == smallest
    for count, smallest in ((253, 0.2), (1, 0.9)):  # two times 128 calls
        for _ in range(count):
            trip.note(0.9)
        assert trip.seconds == smallest
