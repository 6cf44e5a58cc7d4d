"""Ephemerals that do not come over end as ZooKeeper's closeSession ends them."""

from pipeline.jobs.census import Dropped, Ending
from tests.pipeline.etcd.rows import batches, row, rows

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
