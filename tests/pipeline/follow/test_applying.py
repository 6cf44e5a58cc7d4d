"""ZooKeeper's transactions, applied and handed on: three machines, one tree."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import OpCode
from pipeline.errors import Failure
from pipeline.follow.applying import Changes, Diverged
from pipeline.follow.base import Same, compare_digest
from pipeline.follow.recording import Recorder
from pipeline.table import AclRow, TransactionRow
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.outcome import DONE
from proxy.state.recording import keep_changes
from schema.entry import Entry, Kind, Request
from schema.followed import Followed, decode_followed, encode_followed
from tests.pipeline.follow.histories import History, node_pages, parsed
from tests.pipeline.trees import transaction
from tests.proxy.state.test_machine_histories import _OPENED, entries
from tests.proxy.state.world import Said, assert_sound
from tests.table import one_by_one


def hand_on(machine: Machine, changes: Followed) -> int:
    """Apply changes as a proxy does, by way of an entry; the error."""
    request = Request(Kind.FOLLOWED, 0, 0, (), encode_followed(changes))
    (outcome,) = machine.apply("f", machine.applied.get("f", 0) + 1, Entry(1, 0, 0, 0, [request]))
    return outcome.err


@given(entries, st.integers(1, 9))
def test_three_machines_come_to_one_tree(history: list[tuple[str, list[Said]]], together: int) -> None:
    first, second, third = History(), new_machine(1), new_machine(1)
    for clock, (holder, asked) in enumerate([_OPENED, *history]):
        first.enter(holder, clock, asked)
    changes = Changes(second)
    for number, rows in enumerate(first.transactions, 1):
        read = parsed(rows)
        changes.apply(read)
        if read[-1].digest is not None:
            assert compare_digest(second, read[-1].digest) is Same.YES
        if number % together == 0:
            assert hand_on(third, changes.take()) == 0
    if changes.pending:
        assert hand_on(third, changes.take()) == 0
    assert node_pages(first.machine) == node_pages(second) == node_pages(third)
    assert first.machine.zxid == second.zxid == third.zxid
    assert first.machine.sessions.keys() == second.sessions.keys() == third.sessions.keys()
    assert second.tree.ephemerals == third.tree.ephemerals
    assert_sound(third)


def test_changes_of_another_state_have_no_effect() -> None:
    made, other = new_machine(1), new_machine(1)
    changes = Changes(made)
    create = transaction(1, OpCode.CREATE, "/a", data=b"x", owner=0)
    changes.apply([create])
    taken = changes.take()
    assert decode_followed(encode_followed(taken)).deleted == []
    assert hand_on(other, taken) == 0
    assert hand_on(other, taken) != 0  # the same once more
    assert hand_on(other, taken._replace(after=7, zxid=8)) != 0
    assert other.zxid == 1
    assert node_pages(other) == node_pages(made)


def test_a_change_has_only_what_has_changed() -> None:
    made, other = new_machine(1), new_machine(1)
    changes = Changes(made)
    long = tuple(AclRow(31, "digest", f"{Random(n).randbytes(20).hex()}:x") for n in range(1000))
    data = Random(1).randbytes(50_000)

    def size(*rows: TransactionRow) -> int:
        """Bytes of the entry's request."""
        changes.apply(rows)
        taken = changes.take()
        assert hand_on(other, taken) == 0
        assert node_pages(other) == node_pages(made)
        assert_sound(other)
        return len(encode_followed(taken))

    assert size(transaction(1, OpCode.CREATE, "/a", data=data, acl=long, owner=0)) > 70_000
    assert size(transaction(2, OpCode.CREATE, "/a/b", data=b"", owner=0)) < 1000
    assert size(transaction(3, OpCode.SET_DATA, "/a", data=b"x", version=1)) < 1000
    assert size(transaction(4, OpCode.SET_DATA, "/a", data=data, version=2)) < 51_000
    assert size(transaction(5, OpCode.SET_ACL, "/a", acl=long[:9], version=1)) < 2000
    assert size(transaction(6, OpCode.DELETE, "/a/b")) < 1000
    both = [
        transaction(7, OpCode.SET_ACL, "/a", acl=long[:5], version=2),
        transaction(7, OpCode.SET_DATA, "/a", data=b"y", version=3),
    ]
    assert size(*both) < 1000


def test_who_may_not_read_new_data_does_not_see_them_pass() -> None:
    made, other = new_machine(1), new_machine(1)
    changes = Changes(made)
    changes.apply([transaction(1, OpCode.CREATE, "/a", data=b"open", owner=0)])
    assert hand_on(other, changes.take()) == 0
    changes.apply([transaction(2, OpCode.SET_ACL, "/a", acl=(AclRow(31, "digest", "bob:x"),), version=1)])
    changes.apply([transaction(3, OpCode.SET_DATA, "/a", data=b"secret", version=1)])
    seen = keep_changes(other)
    assert hand_on(other, changes.take()) == 0
    assert [each.rights.acl for each in seen if each.data == b"secret"] == [((31, "digest", "bob:x"),)] * 2


def test_changes_that_do_not_fit_are_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    made, other = new_machine(1), new_machine(1)
    changes = Changes(made)
    changes.apply([transaction(1, OpCode.CREATE, "/a", data=b"x", owner=0)])
    changes.take()
    changes.apply([transaction(2, OpCode.CREATE, "/b", data=b"x", owner=0)])
    changes.apply([transaction(3, OpCode.CREATE, "/a/c", data=b"x", owner=0)])
    before = node_pages(other)
    assert hand_on(other, changes.take()._replace(after=0)) != 0
    assert "an error in entry 1 of f" in caplog.text
    assert (node_pages(other), other.zxid) == (before, 0)
    assert_sound(other)


@one_by_one(
    "wrong",
    [
        transaction(1, OpCode.CREATE, "/zookeeper", data=b"", owner=0),
        transaction(1, OpCode.CREATE, "/none/a", data=b"", owner=0),
        transaction(1, OpCode.DELETE, "/none"),
        transaction(1, OpCode.DELETE, "/zookeeper"),
        transaction(1, OpCode.SET_DATA, "/none", data=b"", version=1),
        transaction(1, OpCode.SET_ACL, "/none", acl=None, version=1),
    ],
)
def test_a_transaction_of_another_tree_is_refused(wrong: object) -> None:
    with pytest.raises(Diverged, match="does not fit the tree"):
        Changes(new_machine(1)).apply([wrong])  # type: ignore[list-item]


def test_a_session_that_there_is_already_is_not_that_of_this_tree() -> None:
    changes = Changes(new_machine(1))
    changes.apply([transaction(1, OpCode.CREATE_SESSION, session_id=7, timeout_ms=4000)])
    with pytest.raises(Diverged, match=r"CREATE_SESSION .* meets no 'free id 0x7'"):
        changes.apply([transaction(2, OpCode.CREATE_SESSION, session_id=7, timeout_ms=4000)])


def test_a_counter_of_creates_at_its_end_stays_there_as_zookeepers_does() -> None:
    made, other = new_machine(1), new_machine(1)
    changes = Changes(made)
    for zxid, counter in ((1, (1 << 31) - 1), (2, -1 << 31)):
        changes.apply(
            [transaction(zxid, OpCode.CREATE, f"/{zxid}", data=b"", owner=0, parent_cversion=counter)]
        )
    assert hand_on(other, changes.take()) == 0
    root = other.tree.nodes["/"]
    assert (root.created, root.pzxid) == ((1 << 31) - 1, 1)
    assert node_pages(other) == node_pages(made)


def test_sessions_that_end_at_the_cut_over_take_their_ephemerals_along() -> None:
    machine = new_machine(1)
    changes = Changes(machine)
    changes.apply([transaction(1, OpCode.CREATE_SESSION, session_id=7, timeout_ms=4000)])
    changes.apply([transaction(2, OpCode.CREATE, "/e", session_id=7, data=b"", owner=7)])
    changes.take()
    changes.end_sessions(1 << 32, 5)
    taken = changes.take()
    assert (list(taken.deleted), list(taken.closed), taken.zxid) == (["/e"], [7], 1 << 32)
    assert machine.tree.nodes["/"].pzxid == 1 << 32
    assert not machine.sessions
    changes.apply([transaction((1 << 32) + 1, OpCode.CREATE_SESSION, session_id=8, timeout_ms=4000)])
    changes.apply([transaction((1 << 32) + 2, OpCode.CLOSE_SESSION, session_id=8)])
    assert changes.pending
    assert changes.take()._replace(after=0, zxid=0) == Followed(0, 0, [], [], [], [], [], [], [])


def test_a_change_that_no_transaction_makes_is_a_failure() -> None:
    machine = new_machine(1)
    recorder = Recorder(machine)
    root = machine.tree.nodes["/"]
    machine.transaction.assign("/", root, root)
    machine.zxid += 1
    with pytest.raises(Failure, match="no transaction of ZooKeeper's"):
        recorder.taken(Request(Kind.CLIENT, 1, 77, (), b""), DONE)
