"""The smallest difference lately is the clocks' own."""

from proxy.log.clock_skew import ClockSkew


def test_nobody_else_no_difference() -> None:
    assert ClockSkew().worst == 0.0


def test_the_way_of_an_entry_does_not_count() -> None:
    skew = ClockSkew()
    for delay in (40, 3, 900):
        skew.note("a", 1_000_000, 1_000_000 + delay)
    assert skew.worst == 0.003


def test_a_clock_ahead_and_one_behind() -> None:
    skew = ClockSkew()
    skew.note("ahead", 1_007_000, 1_000_000)
    skew.note("behind", 996_000, 1_000_000)
    assert skew.worst == 7.0
    skew.forget("ahead")
    assert skew.worst == 4.0


def test_a_clock_that_is_set_right_is_forgiven_after_a_while() -> None:
    skew = ClockSkew()
    skew.note("a", 5_000, 0)
    skew.note("a", 61_000, 61_000)
    assert skew.worst == 0.0


def test_a_clock_that_goes_wrong_shows_after_a_while() -> None:
    skew = ClockSkew()
    skew.note("a", 0, 0)
    for now in range(1_000, 200_000, 1_000):
        skew.note("a", now + 9_000, now)
    assert skew.worst == 9.0
