"""The proof of the archive: its small form, and that it finds what is wrong."""

import pytest

from proof.past.__main__ import main
from proof.past.model import Model, Write

Capture = pytest.CaptureFixture[str]


@pytest.mark.real
def test_a_history_with_faults(capsys: Capture) -> None:
    assert main(["--writes", "4000", "--moments", "8", "--every", "0.3", "--seed", "7"]) == 0
    out = capsys.readouterr().out
    assert "every state is the one that clients saw" in out
    assert "kills 0" not in out


def test_the_model_counts_as_zookeeper_does() -> None:
    model = Model()
    for write in (
        Write(1, "create", "/a"),
        Write(2, "create", "/a/b", b"x", time=5),
        Write(3, "set", "/a/b", b"y", time=7),
        Write(5, "acl", "/a/b", acl=()),
        Write(6, "create", "/a/c", owner=9),
        Write(8, "delete", "/a/b"),
    ):
        model.apply(write)
    above, other = model.nodes["/a"], model.nodes["/a/c"]
    assert (above.czxid, above.mzxid, above.pzxid, above.cversion, above.children) == (1, 1, 8, 3, 1)
    assert (other.owner, other.version) == (9, 0)
    assert not other.differs(other._replace(mtime=3))
    assert other.differs(other._replace(version=1))
    with pytest.raises(AssertionError, match="is not above"):
        model.apply(Write(8, "set", "/a/c"))
