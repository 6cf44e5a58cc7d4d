"""Counters of the log."""

from proxy.log.stats import Stats


def test_all_begin_at_nothing() -> None:
    stats = Stats()
    values = [getattr(stats, name) for name in Stats.__slots__]
    assert {value for value in values if isinstance(value, int)} == {0}
