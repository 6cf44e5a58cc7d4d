"""The node quorum/status."""

import pytest

from examples.replicated_merge_tree.parts import Part
from examples.replicated_merge_tree.quorum import Status


def test_a_status_is_read_as_it_was_written() -> None:
    status = Status(Part("p", 3, 3, 0), 2, ("r0", "r1"))
    assert status.encode() == b"p_3_3_0\n2\nr0\nr1"
    assert Status.decode(status.encode()) == status


@pytest.mark.parametrize("data", [b"", b"p_3_3_0", b"p_3_3_0\ntwo\nr0"])
def test_what_is_not_a_status(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        Status.decode(data)
