"""Zxids that continue in a new epoch."""

import pytest

from schema.zxids import epoch_begun_at, next_epoch


def test_zxids_continue_in_a_new_epoch() -> None:
    assert next_epoch(0) == 0x1_0000_0000
    assert next_epoch(0x5_0000_00FF) == 0x6_0000_0000
    assert next_epoch(0x7FFF_FFFE_0000_0001) == 0x7FFF_FFFF_0000_0000
    with pytest.raises(ValueError, match="no epoch of zxids above 0x7fffffff00000000"):
        next_epoch(0x7FFF_FFFF_0000_0000)


def test_no_two_restores_begin_one_epoch() -> None:
    """A backup knows of no restore that comes after it."""
    at_2027, a_second_later, wrong_clock = (epoch_begun_at(each, 5) for each in (1.8e9, 1.8e9 + 1, 1e12))
    assert 0 < at_2027 < a_second_later < wrong_clock
    assert next_epoch(wrong_clock) - wrong_clock == 1 << 32
    assert epoch_begun_at(0.0, 5) == 1 << 32
    assert epoch_begun_at(1.8e9, wrong_clock) == next_epoch(wrong_clock)


def test_a_wrong_clock_leaves_epochs_for_zookeepers_elections() -> None:
    """ZooKeeper and its clients have signed zxids, so epochs of 31 bits."""
    assert (1 << 31) - (epoch_begun_at(1e12, 0) >> 32) > 16_000_000
