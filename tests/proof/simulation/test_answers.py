"""What the judge of answers says of requests that a nearly full etcd's reserve refuses."""

from typing import Any

from codec.constants import CreateMode, OpCode
from codec.jute import OPEN_TO_ALL
from proof.simulation.answers import Answers
from proxy.state.capture import new_machine


def test_a_session_that_gets_no_lock_from_the_reserve_is_a_violation() -> None:
    found: list[str] = []
    nothing: Any = None
    answers = Answers(nothing, nothing, nothing, 10.0, found.append)
    machine = new_machine(1)
    ephemeral, lasting = (
        ("/l/e", b"", OPEN_TO_ALL, mode) for mode in (CreateMode.EPHEMERAL, CreateMode.PERSISTENT)
    )
    machine.tree.ephemerals[2] = {"/l/a", "/l/b"}  # it has used a part of its share
    answers.refused(1, OpCode.CREATE, lasting, machine)
    answers.refused(2, OpCode.CREATE, ephemeral, machine)
    assert found == []
    answers.refused(1, OpCode.CREATE, ephemeral, machine)
    assert found == ["session 0x1 has one ephemeral node at most, and the reserve refuses it /l/e"]
