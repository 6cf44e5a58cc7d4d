"""What a request has changed, in order."""

import inspect
import re

from codec.jute import Acl
from proxy.state.capture import new_machine
from proxy.state.pause import Pause
from proxy.state.recording import NONE, Recorded, Recording, What, keep_changes
from proxy.state.rights import OPEN, rights_of
from proxy.state.sessions import Session
from proxy.state.transaction import Transaction

_ACL = (Acl(31, "world", "anyone"),)
_OTHER_ACL = (Acl(1, "world", "anyone"),)


def test_every_change_is_recorded() -> None:
    changes = {
        name
        for name, method in vars(Transaction).items()
        if inspect.isfunction(method) and re.search(r"self\._undo(\.append| \+=)", inspect.getsource(method))
    }
    assert {"create", "close_session"} < changes
    assert changes <= vars(Recording).keys()


def _recording() -> Recording:
    machine = new_machine(1)
    assert keep_changes(machine) == []
    assert isinstance(machine.transaction, Recording)
    return machine.transaction


def test_another_kind_of_transaction_goes_on_as_the_one_before() -> None:
    machine = new_machine(1)
    machine.transaction.pause = pause = Pause()
    machine.transaction.ttl_nodes_created, machine.transaction.ttl_nodes_deleted = 5, 3
    machine.transaction.deleted_ephemerals = ["/e"]
    machine.transaction.enter("proxy", 5, 0)
    machine.transaction.paid_at = 7  # which decides outcomes
    for make in (Recording, Transaction):
        machine.use_transaction(make)
        tx = machine.transaction
        assert (type(tx), tx.pause, tx.deleted_ephemerals) == (make, pause, ["/e"])
        assert (tx.sender.incarnation, tx.sender.clock) == ("proxy", 5)
        assert (tx.ttl_nodes_created, tx.ttl_nodes_deleted, tx.paid_at) == (5, 3, 7)


def test_changes_of_nodes_say_what_was_and_what_is() -> None:
    tx = _recording()
    nodes = tx.nodes
    tx.create("/a", "/", nodes["/"], b"one", OPEN, 0)
    tx.set_data("/a", nodes["/a"], None)
    tx.set_acl("/a", nodes["/a"], rights_of(_OTHER_ACL))
    tx.delete("/a", "/", nodes["/"], nodes["/a"])
    assert tx.changes == [
        Recorded(What.CREATED, "/a", NONE, 0, None, b"one", _ACL, parent_created=nodes["/"].created),
        Recorded(What.DATA, "/a", 0, 1, b"one", None),
        Recorded(What.ACL, "/a", 0, 1, None, None, _OTHER_ACL, rights=rights_of(_OTHER_ACL)),
        Recorded(What.DELETED, "/a", 1, NONE, None, rights=rights_of(_OTHER_ACL)),
    ]
    tx.rollback()
    assert tx.changes == []


def test_changes_of_sessions_say_by_how_much_the_digest_grows() -> None:
    tx = _recording()
    session = Session(7, 4000, b"x" * 20, "one")
    tx.open_session(session)
    tx.create("/e", "/", tx.nodes["/"], b"", OPEN, 7)
    tx.attach_session(session, "two", 5000)
    tx.attach_sessions([session], "two", "three")
    tx.attach_sessions([], "two", "three")
    tx.close_session(session)
    assert [change.what for change in tx.changes] == [
        What.OPENED, What.CREATED, What.ATTACHED, What.ATTACHED, What.CLOSED, What.DELETED
    ]  # fmt: skip
    assert tx.changes[0].timeout_ms == 4000
    assert sum(change.sessions_digest for change in tx.changes) == 0
    assert tx.changes[2].sessions_digest != 0 != tx.changes[3].sessions_digest
