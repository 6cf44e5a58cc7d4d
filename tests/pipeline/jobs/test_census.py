"""The census counts rightly and finds what cannot be moved; ephemerals left behind end as sessions do."""

import pytest

from codec.longs import signed
from pipeline.jobs.census import Census, Dropped, Ending, Obstacle, take
from pipeline.table import AclRow, ZnodeRow
from tests.pipeline.etcd.rows import batches, row, rows
from tests.pipeline.trees import OPEN, digest_of, here, node, table_of


def counted(*nodes: ZnodeRow) -> Census:
    return take(here(), table_of(*nodes), 1 << 20)


def test_what_there_is() -> None:
    nodes = [
        node("/", 0),
        node("/a", 9, data=b"12345"),
        node("/a/e", owner=77),
        node("/a/é", data=None, acl=OPEN),
        node("/c", owner=-(1 << 63), acl=(AclRow(1, "ip", "::1"),)),
        node("/t", owner=-(1 << 56) + 5, pzxid=12),
    ]
    found = counted(*nodes)
    assert (found.nodes, found.roots, found.data_bytes, found.with_acl, found.max_zxid) == (6, 1, 5, 1, 12)
    assert found.kinds == {"persistent": 3, "ephemeral": 1, "container": 1, "ttl": 1}
    assert found.dropped == Dropped(1, ("/a/e",), frozenset({77}), frozenset({"/a"}))
    assert (found.obstacles, found.obstacle_count, found.fault) == ([], 0, None)
    narrow = digest_of([one._replace(path=one.path.replace("é", "?")) for one in nodes])
    assert found.digests == {signed(digest_of(nodes)), narrow}


def test_what_stands_against_it() -> None:
    nodes = [node("/", 0), node("/large", data=bytes(1 << 20)), node("/a\u0001"), node("/.."), node("/ok")]
    nodes.append(node("no slash", owner=77))
    found = counted(*nodes)
    reasons = dict(found.obstacles)
    assert set(reasons) == {"/large", "/a\u0001", "/..", "no slash"}
    assert Obstacle("/..", "ZooKeeper allows no such path") in found.obstacles
    assert found.obstacle_count == 4


def test_ephemerals_stay_with_their_session_and_few_of_the_others_are_kept_in_memory() -> None:
    tree = [node("/", 0), node("/a"), node("/b"), node("/b/kept", owner=7)]
    tree += [node(f"/a/{number:04d}", owner=8 + number % 3) for number in range(1000)]
    found = take(here(), table_of(*tree), 1 << 20, [7], 2)
    paths = ("/a/0000", "/a/0001", "/a/0002")  # one more than asked for: there are more
    assert found.dropped == Dropped(1000, paths, frozenset({8, 9, 10}), frozenset({"/a"}))
    assert found.kinds["ephemeral"] == 1001


@pytest.mark.long
def test_a_path_that_came_twice_and_a_parent_that_is_missing() -> None:
    tree = [node("/", 0), *(node(f"/{number}") for number in range(3000))]
    assert counted(*tree).fault is None
    assert counted(*tree, node("/2000")).fault == "a path came more than once: /2000"
    alone = node("/away/1")
    assert counted(*tree, alone).fault == "/away/1 is in the table, but its parent /away is not"


DROPPED = Dropped(1, ("/a/f",), frozenset({8}), frozenset({"/a"}))


def test_those_that_go_move_their_parents_pzxid_and_nothing_else() -> None:
    tree = [row("/", created=2), row("/a", pzxid=500), row("/a/e", owner=7), row("/a/f", owner=8), row("/b")]
    ending = Ending(DROPPED, 100)
    assert rows(ending(batches(tree, 2))) == [tree[0], tree[1], tree[2], tree[4]]
    ending = Ending(DROPPED, 1000)
    assert rows(ending(batches(tree, 2))) == [tree[0], tree[1]._replace(pzxid=1000), tree[2], tree[4]]


def test_nothing_is_touched_where_all_stay() -> None:
    given = list(batches([row("/"), row("/e", owner=7)]))
    assert list(Ending(Dropped(0, (), frozenset(), frozenset()), 100)(given)) == given
