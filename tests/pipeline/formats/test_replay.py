"""The rules of replay, one by one, and that fuzzy snapshots converge whatever they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import OpCode
from pipeline.formats import transactions
from pipeline.formats.log import Entry
from pipeline.formats.replay import Replay, sessions_after, touched
from pipeline.table import AclRow, SessionRow, TransactionRow, ZnodeRow
from schema.paths import parent_of
from schema.znode import CONTAINER_OWNER
from tests.pipeline.trees import node, transaction

ROOT = node("/", 0)
ACL = (AclRow(1, "ip", "10.0.0.1"),)


def create(
    zxid: int, path: str, counter: int | None, kind: OpCode = OpCode.CREATE, **fields: object
) -> TransactionRow:
    return transaction(zxid, kind, path, data=b"", owner=0, parent_cversion=counter)._replace(**fields)  # type: ignore[arg-type]


def after(nodes: list[ZnodeRow], *txns: TransactionRow) -> dict[str, ZnodeRow]:
    replay = Replay({one.path: one for one in nodes})
    for txn in txns:
        replay.apply([txn])
    return replay.nodes


def test_a_create_makes_a_node_and_raises_its_parent() -> None:
    made = after([ROOT], create(5, "/a", 7, time=99, acl=ACL, data=b"x", owner=CONTAINER_OWNER))
    assert made["/"] == ROOT._replace(created=7, pzxid=5)
    assert made["/a"] == ZnodeRow("/a", b"x", ACL, 5, 5, 5, 99, 99, 0, 0, 0, CONTAINER_OWNER)


def test_a_create_of_old_servers_counts_for_itself() -> None:
    assert after([ROOT._replace(created=3)], create(5, "/a", None))["/"].created == 4


def test_a_create_that_the_snapshot_knows_leaves_the_parent_alone() -> None:
    assert after([ROOT._replace(created=9, pzxid=8)], create(5, "/a", 7))["/"] == ROOT._replace(
        created=9, pzxid=8
    )


def test_a_create_without_parent_is_nothing() -> None:
    assert after([ROOT], create(5, "/a/b", 1)) == {"/": ROOT}


@pytest.mark.parametrize(("kind", "raised"), [(OpCode.CREATE, True), (OpCode.CREATE2, False)])
def test_a_create_of_a_node_that_is_there_gives_it_the_acl(kind: OpCode, raised: bool) -> None:
    there = node("/a", 9, data=b"new", version=3)
    made = after([ROOT, there], create(5, "/a", 7, kind, acl=ACL, data=b"old"))
    assert made["/a"] == there._replace(acl=ACL)
    assert made["/"] == (ROOT._replace(created=7, pzxid=5) if raised else ROOT)


def test_a_delete_raises_the_parent_even_without_the_node() -> None:
    for nodes in ([ROOT], [ROOT, node("/a")]):
        assert after(nodes, transaction(5, OpCode.DELETE, "/a")) == {"/": ROOT._replace(pzxid=5)}
    later = ROOT._replace(pzxid=8)
    assert after([later], transaction(5, OpCode.DELETE_CONTAINER, "/a")) == {"/": later}
    assert after([], transaction(5, OpCode.DELETE, "/a/b")) == {}


def test_set_data_and_set_acl_set_what_they_say() -> None:
    there = node("/a", 2)
    made = after(
        [ROOT, there],
        transaction(5, OpCode.SET_DATA, "/a", data=None, version=4, time=77),
        transaction(6, OpCode.SET_ACL, "/a", acl=ACL, version=9),
        transaction(7, OpCode.SET_DATA, "/none", data=b"", version=1),
        transaction(8, OpCode.SET_ACL, "/none", acl=ACL, version=1),
        transaction(9, OpCode.RECONFIG, "/", data=b"r", version=1, time=78),
    )
    assert made == {
        "/": ROOT._replace(data=b"r", version=1, mzxid=9, mtime=78),
        "/a": there._replace(data=None, version=4, mzxid=5, mtime=77, acl=ACL, aversion=9),
    }


def test_the_end_of_a_session_takes_what_it_names_and_what_it_owns() -> None:
    nodes = [
        ROOT,
        node("/p"),
        node("/p/a", owner=7),
        node("/p/b", owner=7),
        node("/p/c", owner=8),
        node("/p/d"),
    ]
    gone = after(nodes, transaction(5, OpCode.CLOSE_SESSION, session_id=7, paths=("/p/a", "/p/d", "/q/x")))
    assert sorted(gone) == ["/", "/p", "/p/c"]
    assert gone["/p"].pzxid == 5
    made = after(
        [ROOT],
        create(4, "/e", 1, owner=7),
        create(5, "/f", 2, owner=7),
        transaction(6, OpCode.DELETE, "/e"),
        create(7, "/e", 3, owner=8),
        transaction(8, OpCode.CLOSE_SESSION, session_id=7),
    )
    assert sorted(made) == ["/", "/e"]


def test_a_multi_that_failed_is_nothing() -> None:
    parts = [create(5, "/a", 1, part=0), transaction(5, OpCode.ERROR, part=1, error=-101)]
    replay = Replay({"/": ROOT})
    replay.apply(parts)
    assert replay.nodes == {"/": ROOT}
    replay.apply([parts[0], transaction(5, OpCode.CHECK, "/a", part=1, version=1)])
    assert "/a" in replay.nodes
    replay.apply([transaction(6, OpCode.ERROR, error=-101)])


def test_sessions_come_and_go() -> None:
    sessions = [SessionRow(1, 100), SessionRow(2, 200)]
    txns = [
        transaction(5, OpCode.CREATE_SESSION, session_id=3, timeout_ms=300),
        transaction(6, OpCode.CLOSE_SESSION, session_id=1),
        transaction(7, OpCode.CLOSE_SESSION, session_id=9),
    ]
    assert sessions_after(sessions, txns) == [SessionRow(2, 200), SessionRow(3, 300)]


def test_what_transactions_touch() -> None:
    txns = [
        [create(1, "/a/b", 1)],
        [transaction(2, OpCode.SET_DATA, "/c/d")],
        [transaction(3, OpCode.CHECK, "/e", part=0), transaction(3, OpCode.DELETE, "/h/i", part=1)],
        [transaction(4, OpCode.CLOSE_SESSION, session_id=7, paths=("/f/g",))],
        [transaction(5, OpCode.ERROR, error=-1)],
    ]
    found = touched((Entry(0, transactions.pack(rows)), "log.1") for rows in txns)
    assert found.paths == {"/a/b", "/a", "/c/d", "/h/i", "/h", "/f/g", "/f"}
    assert found.closed == {7}


# Fuzzy snapshots: a random history of a real tree, and snapshots that took each node at another moment.


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[TransactionRow], list[dict[str, ZnodeRow]]]:
    """Transactions that a server could have logged, and the tree after each; the first tree is before any."""
    names = ["/a", "/b", "/a/a", "/a/b", "/b/a"]
    replay = Replay({"/": ROOT})
    txns: list[TransactionRow] = []
    trees = [dict(replay.nodes)]
    for zxid in range(1, draw(st.integers(1, 25)) + 1):
        nodes = replay.nodes
        path = draw(st.sampled_from(names))
        parent = nodes.get(parent_of(path))
        kind = draw(st.sampled_from(["create", "delete", "set", "acl", "close"]))
        if kind == "create" and parent is not None and path not in nodes and not parent.owner:
            txn = create(
                zxid, path, parent.created + 1, data=bytes([zxid]), owner=draw(st.sampled_from([0, 0, 7]))
            )
            txn = txn._replace(session_id=7)
        elif kind == "delete" and path in nodes and not any(parent_of(other) == path for other in nodes):
            txn = transaction(zxid, OpCode.DELETE, path)
        elif kind == "set" and path in nodes:
            txn = transaction(
                zxid, OpCode.SET_DATA, path, data=bytes([zxid]), version=nodes[path].version + 1
            )
        elif kind == "acl" and path in nodes:
            acl = (AclRow(zxid, "ip", "x"),)
            txn = transaction(zxid, OpCode.SET_ACL, path, acl=acl, version=nodes[path].aversion + 1)
        elif kind == "close":
            paths = tuple(sorted(one.path for one in nodes.values() if one.owner == 7))
            # Without paths the parent's pzxid may stay behind, with ZooKeeper as well: hence 3.6 logs them.
            txn = transaction(zxid, OpCode.CLOSE_SESSION, session_id=7, paths=paths)
        else:
            txn = transaction(zxid, OpCode.ERROR, error=-101)
        replay.apply([txn])
        txns.append(txn)
        trees.append(dict(replay.nodes))
    return txns, trees


@given(histories(), st.data())
def test_fuzzy_snapshots_converge(
    history: tuple[list[TransactionRow], list[dict[str, ZnodeRow]]], data: st.DataObject
) -> None:
    txns, trees = history
    start = data.draw(st.integers(0, len(txns)))
    # A server takes a node and its children's names in one step, then goes to each (DataTree.serializeNode).
    moment = start
    fuzzy: dict[str, ZnodeRow] = {}

    def write(path: str) -> None:
        nonlocal moment
        moment = data.draw(st.integers(moment, len(txns)))
        tree = trees[moment]
        if path in tree:
            fuzzy[path] = tree[path]
            for child in sorted(other for other in tree if other != "/" and parent_of(other) == path):
                write(child)

    write("/")
    replay = Replay(fuzzy)
    for txn in txns[start:]:
        replay.apply([txn])
    assert replay.nodes == trees[-1]
