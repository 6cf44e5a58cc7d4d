"""Requests that cost too much: each known kind of fault is judged so, and a search finds them."""

import pytest

from codec.constants import KeeperOpCode, OpCode
from proof.fuzzing import worst
from proof.fuzzing.corpus import committed
from proof.fuzzing.expensive import ALL, LARGE, SMALL, Bill, Sizes, World, request
from proof.fuzzing.target import Wrong
from proof.fuzzing.targets.costs import costs
from proxy.state.operation import Cost
from proxy.state.ops import EXTENDED, EXTENDED_PARTS
from tests.proof.fuzzing.faults import FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_each_known_fault_costs_too_much(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    genome = bytes.fromhex(fault.genome)
    assert genome in committed("costs"), "what it costs without the fault is tested there"
    fault.plant(monkeypatch)
    with pytest.raises(Wrong, match="times its bound"):
        costs(genome)


def test_a_search_finds_what_was_found_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS["auth"].plant(monkeypatch)
    search = worst.Search(SMALL, seed=1)
    while search.tries < 2000:
        found = [each for each in search.try_some() if each.share > 1 and each.measure == "kept"]
        if found:
            monkeypatch.undo()
            costs(found[0].genome)
            return
    pytest.fail("not found")


def test_what_a_search_finds_is_measured_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worst, "LARGE", SMALL._replace(per_byte=0.001))
    tries, found = worst.search(0.01, 1)
    assert tries > 0
    assert worst.main([found[0].split()[-1]]) == 0
    assert found[0].split(":")[0] in capsys.readouterr().out
    monkeypatch.setattr(worst, "LARGE", SMALL._replace(per_byte=1e9, stretch=1e9))
    assert worst.search(0.01, 1)[1] == []


def test_each_measure_has_a_bound() -> None:
    cheap = Bill(1, 0, total=1000, longest=1000, sent=100, received=100, changes=0, notified=0, kept=100,
                 cost=Cost.BYTES)  # fmt: skip
    assert max(SMALL.shares(cheap).values()) < 1
    assert max(SMALL.shares(cheap._replace(total=1e6, cost=Cost.SEARCH)).values()) < 1
    for dear in (cheap._replace(total=1e6), cheap._replace(longest=1e4), cheap._replace(kept=10_000)):
        assert max(SMALL.shares(dear).values()) > 1
    assert LARGE.shares(cheap._replace(total=0.1, longest=0.1))["stretch"] == pytest.approx(2)


def test_only_reads_and_one_write_look_at_nodes_in_vain() -> None:
    """All proxies pay for a write, and again at each start."""
    searching = [opcode for opcode, write in EXTENDED.writes.items() if Cost.SEARCH in write.cost]
    assert searching == [KeeperOpCode.REMOVE_RECURSIVE], "for 8192 nodes at most"


def test_each_request_and_each_part_has_a_body() -> None:
    world = World(Sizes(), SMALL)
    asked = {request(iter((which, 1, 0, 0, 0, 0, 0)), world, SMALL)[0] for which in range(len(ALL))}
    assert asked == set(ALL)
    for opcode in (OpCode.MULTI, OpCode.MULTI_READ):
        for part in range(len(EXTENDED_PARTS)):
            request(iter((ALL.index(opcode), 1, 0, 0, 0, part, part)), world, SMALL)


def test_each_path_of_a_state_is_one() -> None:
    """A state that has not what its requests ask for costs nothing."""
    world = World(Sizes(steps=3, leaves=4, parents=2, quotas=2), SMALL)
    nodes = world.machine.tree.nodes
    for kind in (*range(4), 7, 8):
        opcode, body = request(iter((ALL.index(OpCode.EXISTS), 0, 0, kind, 0, 0, 0)), world, SMALL)
        assert world.bill(opcode, body).answer == 0, kind
    assert {*world.steps, *world.parents, *world.leaves} < set(nodes)
