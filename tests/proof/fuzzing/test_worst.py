"""`python -m proof.fuzzing.worst` finds the most expensive requests that it tries."""

import pytest

from codec.constants import KeeperOpCode, OpCode
from proof.fuzzing import worst
from proof.fuzzing.expensive import ALL, SMALL, Bill, Lines, World, request, sizes
from proof.fuzzing.target import Wrong
from proof.fuzzing.targets import costs
from proxy.state.operation import Cost
from proxy.state.ops import EXTENDED, EXTENDED_PARTS


def test_a_short_search(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst, "LARGE", SMALL)
    assert worst.main(["--seconds", "1"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in worst.MEASURES)


def test_what_costs_more_than_its_bytes_is_found() -> None:
    cheap = Bill(1, 0, total=1000, longest=1000, sent=100, received=100, changes=0, cost=Cost.BYTES)
    costs.check(cheap)
    costs.check(cheap._replace(total=1e6, cost=Cost.SEARCH))
    for dear in (
        cheap._replace(total=1e6),
        cheap._replace(longest=1e4),
        cheap._replace(longest=1e4, cost=Cost.SEARCH),
    ):
        with pytest.raises(Wrong):
            costs.check(dear)


def test_only_reads_and_one_write_look_at_nodes_in_vain() -> None:
    """All proxies pay for a write, and again at each start."""
    searching = [opcode for opcode, write in EXTENDED.writes.items() if Cost.SEARCH in write.cost]
    assert searching == [KeeperOpCode.REMOVE_RECURSIVE], "for 8192 nodes at most"


def test_each_request_and_each_part_has_a_body() -> None:
    world = World(sizes(iter(()), SMALL), SMALL, Lines())
    asked = {request(iter((which, 1, 0, 0, 0, 0, 0)), world, SMALL)[0] for which in range(len(ALL))}
    assert asked == set(ALL)
    for opcode in (OpCode.MULTI, OpCode.MULTI_READ):
        for part in range(len(EXTENDED_PARTS)):
            request(iter((ALL.index(opcode), 1, 0, 0, 0, part, part)), world, SMALL)
