"""What the judge of the reserve says."""

from typing import Any
from unittest import mock

import pytest

from codec.constants import CreateMode, ErrorCode, OpCode
from codec.jute import OPEN_ACL
from proof.simulation.reserve import ReserveJudge
from proof.simulation.sometimes import EPHEMERAL, LENT, WHOLE_AGAIN
from proof.simulation.world import World
from proxy.state.capture import new_machine
from proxy.state.outcome import DONE, Outcome
from schema.entry import Kind, Request
from tests.proof.simulation.worlds import small

_QUOTA = 400_000  # of which a session may add 500 bytes


def _judge(found: list[str]) -> ReserveJudge:
    return ReserveJudge(World(1), [], _QUOTA, found.append)


def test_refusals_that_may_not_be() -> None:
    found: list[str] = []
    judge, machine = _judge(found), new_machine(1)

    def refused(session: int, opcode: int, fields: Any, *, is_last: bool = False) -> list[str]:
        found.clear()
        judge.refused(session, opcode, fields, machine, is_last=is_last)
        return found

    ephemeral, lasting = (
        ("/l/e", b"", OPEN_ACL, mode) for mode in (CreateMode.EPHEMERAL, CreateMode.PERSISTENT)
    )
    machine.tree.ephemerals[2] = {"/l/a", "/l/b"}  # it has used a part of its share
    assert refused(1, OpCode.CREATE, lasting) == []
    assert refused(2, OpCode.CREATE, ephemeral) == []
    assert refused(1, OpCode.CREATE, ephemeral, is_last=True) == []
    assert refused(1, OpCode.SET_DATA, ("/l", b"x", -1)) == []
    lock = "session 0x1 has one ephemeral node at most, and the reserve refuses it /l/e"
    assert refused(1, OpCode.CREATE, ephemeral) == [lock]
    gives = "the reserve refuses session 0x1 what gives space: /l"
    assert refused(1, OpCode.SET_DATA, ("/l", b"", -1)) == [gives]
    assert refused(1, OpCode.DELETE, ("/l", -1)) == [gives]
    assert refused(1, OpCode.DELETE, ("/l", -1), is_last=True) == []


@pytest.mark.parametrize("touched", [False, True])
def test_a_session_that_adds_more_than_its_share(touched: bool) -> None:
    found: list[str] = []
    judge, machine = _judge(found), new_machine(1)
    with mock.patch.object(ReserveJudge, "is_touched", touched):
        judge.applied("a", Request(Kind.OPEN, 1, 0, (), b""), DONE, machine)
        judge._world.now += 10.0

        def grows(size: int, outcome: Outcome = DONE) -> None:
            machine.tree.data_size += size
            judge.applied("a", Request(Kind.CLIENT, 1, OpCode.CREATE, (), b""), outcome, machine)

        grows(900)
        grows(-600)
        grows(600)
        grows(0, Outcome(ErrorCode.NO_NODE, b""))  # the proxy took this for a delete that gives space
        grows(900)
        assert found == []
        grows(200)
    said = "session 0x1 makes the tree grow by 1100 bytes while the reserve is touched"
    assert found == ([said] if touched else [])


def test_an_etcd_that_another_user_fills_is_no_fault_of_the_proxies() -> None:
    world = small(11, 0.02, ("fill etcd", "client dies"))
    outcome = world.run()
    assert outcome.violations == []
    assert outcome.faults["fill etcd"] > 1
    assert {LENT, EPHEMERAL, WHOLE_AGAIN} <= set(outcome.branches)
    assert not world.cluster.store.full
