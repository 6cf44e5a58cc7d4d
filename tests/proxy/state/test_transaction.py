"""Changes of the tree, and how they are taken back."""

from collections.abc import Callable

import pytest
from typing_extensions import override

from codec import client as zk
from codec.constants import CreateMode, EventType
from codec.jute import Acl, Reader
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.pause import Lengths, Pause
from proxy.state.recording import Recording
from proxy.state.rights import OPEN, rights_of
from proxy.state.sessions import Session
from proxy.state.sparse import LOOK
from proxy.state.transaction import Transaction
from schema.entry import Entry, Kind, Request, encode_close, encode_terms
from schema.paths import parent_of
from schema.znode import CONTAINER_OWNER, ttl_owner
from tests.proxy.state.world import all_pages, assert_sound
from tests.table import one_by_one

ACL = rights_of((Acl(1, "ip", "::1"),))


def _prepared() -> tuple[Machine, Transaction]:
    """/p with a child, an ephemeral of session 5 and a container; sessions 5 and 6."""
    machine = new_machine(1)
    tx = Transaction(machine.tree, machine.sessions, machine.digest)
    tx.watched = True
    tx.enter("home", 1000, 0)
    tx.zxid = 10
    owners = {"/p": 0, "/p/c": 0, "/p/d": 0, "/p/r": 0, "/e": 5, "/k": CONTAINER_OWNER}
    for path, owner in owners.items():
        above = parent_of(path)
        tx.create(path, above, tx.nodes[above], b"data", OPEN, owner)
    for session in (5, 6):
        tx.open_session(Session(session, 4000, bytes(16), "home"))
    tx.commit()
    tx.events.clear()
    tx.enter("other", 2000, 0)
    tx.zxid = 11
    return machine, tx


CHANGES: dict[str, list[Callable[[Transaction], object]]] = {
    "create": [lambda tx: tx.create("/p/new", "/p", tx.nodes["/p"], b"new", ACL, ttl_owner(7))],
    "create deep": [lambda tx: tx.create("/p/d/new", "/p/d", tx.nodes["/p/d"], None, ACL, 5)],
    "delete": [lambda tx: tx.delete("/p/c", "/p", tx.nodes["/p"], tx.nodes["/p/c"])],
    "replace": [
        lambda tx: tx.delete("/p/r", "/p", tx.nodes["/p"], tx.nodes["/p/r"]),
        lambda tx: tx.create("/p/r", "/p", tx.nodes["/p"], b"again", OPEN, 0),
    ],
    "set": [
        lambda tx: tx.set_data("/p", tx.nodes["/p"], b"longer than before"),
        lambda tx: tx.set_data("/p", tx.nodes["/p"], None),
    ],
    "set acl": [lambda tx: tx.set_acl("/p", tx.nodes["/p"], ACL)],
    "open": [lambda tx: tx.open_session(Session(7, 1, bytes(16), "other"))],
    "close": [lambda tx: tx.close_session(tx.session_named(5))],
    "attach": [lambda tx: tx.attach_session(tx.session_named(6), "other", 9)],
    "carry over": [
        lambda tx: tx.attach_sessions(
            [each for each in tx._sessions.values() if each.incarnation == "home"], "home", "other"
        )
    ],
}


def _change(tx: Transaction, *names: str) -> None:
    for name in dict.fromkeys(names):
        for step in CHANGES[name]:
            step(tx)


def _names(tx: Transaction) -> dict[str, list[str | None]]:
    return {path: sorted(Reader(node.names()).strings() or ()) for path, node in tx.nodes.items()}  # type: ignore[type-var]


@one_by_one("change", CHANGES)
@one_by_one("after", CHANGES)
def test_what_is_taken_back_was_never_there(change: str, after: str) -> None:
    machine, tx = _prepared()
    before = all_pages(machine)
    stats = {path: node.stat() for path, node in tx.nodes.items()}
    names = _names(tx)
    _change(tx, change, after)
    assert machine.compute_digest() != before[3]
    tx.rollback()
    assert all_pages(machine) == before
    assert {path: node.stat() for path, node in tx.nodes.items()} == stats
    assert _names(tx) == names
    assert tx.events == []
    assert_sound(machine)
    tx.rollback()  # a second time does nothing
    assert all_pages(machine) == before


def test_ttl_nodes_are_counted_unless_the_request_is_taken_back() -> None:
    _, tx = _prepared()
    for end, expected in ((tx.rollback, (0, 0)), (tx.commit, (1, 1))):
        node = tx.create("/p/ttl", "/p", tx.nodes["/p"], b"", OPEN, ttl_owner(7))
        tx.delete("/p/ttl", "/p", tx.nodes["/p"], node)
        tx.delete("/k", "/", tx.nodes["/"], tx.nodes["/k"])  # a container
        end()
        assert (tx.ttl_nodes_created, tx.ttl_nodes_deleted) == expected


def test_events_have_the_acls_of_the_node_and_of_its_parent() -> None:
    _, tx = _prepared()
    _change(tx, "create", "set acl", "delete")
    tx.set_data("/p", tx.nodes["/p"], None)
    assert tx.events == [
        (EventType.NODE_CREATED, "/p/new", ACL, OPEN),
        (EventType.NODE_DELETED, "/p/c", OPEN, ACL),
        (EventType.NODE_DATA_CHANGED, "/p", ACL, OPEN),
    ]


@pytest.mark.parametrize("field", ["version", "aversion"])
def test_versions_go_round_as_javas(field: str) -> None:
    machine, tx = _prepared()
    node = tx.nodes["/p"]
    setattr(node, field, 2**31 - 1)
    machine.reset_digest()
    _change(tx, "set acl" if field == "aversion" else "set")
    assert getattr(node, field) == -(2**31) + (field == "version")
    assert_sound(machine)


def test_what_the_end_of_a_session_leaves_is_freed_with_pauses() -> None:
    machine, tx = _prepared()
    tx.deleted_ephemerals = [f"/{number}" for number in range(9)]
    calls: list[int] = []

    class Counting(Pause):
        @override
        def __call__(self) -> None:
            super().__call__()
            calls.append(len(tx.deleted_ephemerals))

    tx.pause = Counting(Lengths(every=2))
    tx.close_session(tx.session_named(5))
    assert calls[:4] == [7, 5, 3, 1]
    assert tx.deleted_ephemerals == ["/e"]
    assert_sound(machine)


class _OneByOne(Recording):
    """Deletes what a session owns as a client would."""

    @override
    def delete_ephemerals(self, session_id: int) -> None:
        self.deleted_ephemerals = sorted(self.tree.ephemerals.get(session_id, ()))
        for path in self.deleted_ephemerals:
            above = parent_of(path)
            self.delete(path, above, self.nodes[above], self.nodes[path])


def _with_ephemerals(kind: type[Recording], is_settled: bool) -> tuple[Machine, Recording]:
    """Session 5 has very many, of all kinds, among those of others."""
    machine = new_machine(1)
    tx = machine.transaction = kind(machine.tree, machine.sessions, machine.digest)
    tx.watched = True
    tx.enter("home", 1000, 0)
    tx.zxid = 10
    owners = dict.fromkeys(
        ("/p", "/p/d", "/p/d/deep", "/q", "/zookeeper/quota/p", "/zookeeper/quota/p/e1"), 0
    )
    owners |= {f"/p/e{number}": 5 + number % 3 // 2 for number in range(3 * LOOK)}
    owners |= {f"/{name}/f{number}": 5 for name in ("p/d", "p/d/deep", "q") for number in range(9)}
    owners |= {"/zookeeper/e": 5, "/zookeeper/quota/e": 5, "/zookeeper/quota/p/e1/zookeeper_stats": 5}
    owners["/zookeeper/quota/p/zookeeper_stats"] = 0
    rights = [OPEN, ACL, rights_of((Acl(1, "ip", "x" * 5000),)), OPEN]
    data = [b"", None, b"short", b"l" * 5000, b"v" * 20_000]
    for number, (path, owner) in enumerate(owners.items()):
        above = parent_of(path)
        tx.create(path, above, tx.nodes[above], data[number % 5], rights[number % 4], owner)
    for session in (5, 6):
        tx.open_session(Session(session, 4000, bytes(16), "home"))
    tx.commit()
    tx.zxid = 11
    if is_settled:
        machine.digest.settle(machine.tree.nodes)
    for path in ("/p/e0", "/q/f3"):
        tx.set_data(path, tx.nodes[path], b"touched")
    tx.commit()
    machine.digest.all_touched = set()
    tx.events.clear()
    tx.changes.clear()
    tx.zxid = 12
    return machine, tx


@pytest.mark.parametrize("is_settled", [True, False])
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_end_of_a_session_is_as_if_its_ephemerals_were_deleted_one_by_one(
    is_kept: bool, is_settled: bool
) -> None:
    found = []
    for kind in (_OneByOne, Recording):
        machine, tx = _with_ephemerals(kind, is_settled)
        former = all_pages(_with_ephemerals(kind, is_settled)[0])
        tx.close_session(tx.session_named(5))
        events, changes = list(tx.events), list(tx.changes)
        if is_kept:
            tx.commit()
            assert 5 not in machine.tree.ephemerals
        else:
            tx.rollback()
            assert all_pages(machine) == former
        assert_sound(machine)
        found.append(
            (
                (events, changes, tx.deleted_ephemerals, tx.many),
                (all_pages(machine), machine.digest.all_touched, machine.tree.ephemerals),
                {path: list(node.children or ()) for path, node in machine.tree.nodes.items() if is_kept},
            )
        )
    assert found[0] == found[1]


def test_the_digest_of_what_is_deleted_or_not_after_all_is_that_from_scratch() -> None:
    machine = new_machine(1)
    session = Request(Kind.OPEN, 1, 0, (), encode_terms(4000, bytes(16)))
    create = zk.create("/e", b"data", CreateMode.EPHEMERAL)
    fails = zk.multi([zk.delete("/e"), zk.check("/none", 0)])
    asked = [Request(Kind.CLIENT, 1, each.opcode, (), each.body) for each in (create, fails)]
    close = Request(Kind.CLOSE, 1, 0, (), encode_close("", ""))
    for number, request in enumerate([session, *asked, close], 1):
        machine.apply("own", number, Entry(1, 0, 0, 0, [request]))
        assert machine.digest.settle(machine.tree.nodes) == machine.compute_digest()
