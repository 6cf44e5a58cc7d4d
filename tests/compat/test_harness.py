"""The whole apparatus on two real ZooKeepers: nothing differs, unless one has a node that the other lacks."""

import os
from collections.abc import Iterator

import pytest

from tests.compat.conftest import real_zookeeper
from tests.compat.generate import Generator
from tests.compat.runner import describe, run
from tests.compat.script import Create, Exists, Open, Script, call
from tests.compat.shrink import shrink
from tests.compat.side import Server, Side, remove

pytestmark = pytest.mark.real

ODD_NODE = f"/odd-{os.getpid()}"


@pytest.fixture(scope="module")
def twins() -> Iterator[tuple[Server, Server]]:
    """Two ZooKeepers of this module's own: servers are compared with all they have been through."""
    with real_zookeeper() as first, real_zookeeper() as second:
        yield Server("first", (first.port,)), Server("second", (second.port,))


def test_a_difference_is_found_and_shrunk(twins: tuple[Server, Server]) -> None:
    Side(twins[0], ODD_NODE).close()
    look = call(2, Exists("@" + ODD_NODE))
    # the root's Stat differs from now on
    script = [
        step for step in Generator(4712).script(40) if "'@/'" not in repr(step) and "'@'" not in repr(step)
    ]
    script.insert(30, Open(2))
    script.insert(31, look)

    def differs(candidate: Script) -> bool:
        return run(candidate, *twins) is not None

    try:
        found = run(script, *twins)
        assert found is not None
        assert found.step == look
        assert "err: 0 against -101" in found.reason
        assert shrink(script, differs, seconds=240.0) == [Open(2), look]
        assert repr(look) in describe(found, script, *twins)
        # what both sides have in common does not differ
        assert run([Open(0), call(0, Create("/a"), Exists("/a"))], *twins) is None
    finally:
        remove(twins[0], ODD_NODE)
