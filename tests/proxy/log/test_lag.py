"""How far the others had come."""

from proxy.log.lag import Lag, Lags


def test_the_distance_is_that_of_the_last_entry() -> None:
    lags = Lags()
    assert lags.get("a") is None
    lags.note("a", 32, 100, 5_000)
    assert lags.get("a") == Lag(68, 5_000)
    lags.note("a", 128, 120, 6_000)
    assert lags.get("a") == Lag(0, 6_000)
    lags.note("a", 0, 10, 7_000)  # before its first checkpoint
    assert lags.get("a") == Lag(0, 7_000)
    lags.forget("a")
    assert lags.get("a") is None
