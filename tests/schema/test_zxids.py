"""Zxids that continue in a new epoch."""

import pytest

from schema.zxids import next_epoch


def test_zxids_continue_in_a_new_epoch() -> None:
    assert next_epoch(0) == 0x1_0000_0000
    assert next_epoch(0x5_0000_00FF) == 0x6_0000_0000
    assert next_epoch(0x7FFF_FFFE_0000_0001) == 0x7FFF_FFFF_0000_0000
    with pytest.raises(ValueError, match="no epoch of zxids above 0x7fffffff00000000"):
        next_epoch(0x7FFF_FFFF_0000_0000)
