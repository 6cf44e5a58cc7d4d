"""Ephemerals that do not come over end as ZooKeeper's closeSession ends them."""

from pipeline.jobs.census import Census, Ephemeral
from pipeline.jobs.ephemerals import Ending, Kept, kept_of
from pipeline.table import SessionRow
from tests.pipeline.etcd.rows import batches, row, rows

SESSION = SessionRow(7, 4000)


def census(*ephemerals: Ephemeral) -> Census:
    return Census(0, 1, 0, {}, 0, 0, frozenset(), list(ephemerals), [], 0, None)


def test_ephemerals_stay_with_their_session() -> None:
    counted = census(Ephemeral("/a/e", 7), Ephemeral("/a/f", 8), Ephemeral("/g", 9))
    kept = kept_of(counted, [SESSION])
    assert kept == Kept((SESSION,), ("/a/f", "/g"), (8, 9))


def test_those_that_go_move_their_parents_pzxid_and_nothing_else() -> None:
    tree = [row("/", created=2), row("/a", pzxid=500), row("/a/e", owner=7), row("/a/f", owner=8), row("/b")]
    ending = Ending(Kept((SESSION,), ("/a/f",), (8,)), 100)
    assert rows(ending(batches(tree, 2))) == [tree[0], tree[1], tree[2], tree[4]]
    ending = Ending(Kept((SESSION,), ("/a/f",), (8,)), 1000)
    assert rows(ending(batches(tree, 2))) == [tree[0], tree[1]._replace(pzxid=1000), tree[2], tree[4]]


def test_nothing_is_touched_where_all_stay() -> None:
    given = list(batches([row("/"), row("/e", owner=7)]))
    assert list(Ending(Kept((SESSION,), (), ()), 100)(given)) == given
