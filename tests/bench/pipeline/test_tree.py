"""The made-up tree fits together as one that a server has left behind."""

from collections import Counter
from itertools import chain

import pytest

from bench.pipeline import tree
from pipeline.formats.transactions import is_session
from schema.paths import is_valid, parent_of


@pytest.mark.parametrize("nodes", [11, 1010, 1011, 3500])
def test_a_tree_is_whole_and_its_counters_fit(nodes: int) -> None:
    rows = list(chain(tree.trunk(nodes), *(tree.table(n) for n in range(tree.tables_of(nodes)))))
    by_path = {row.path: row for row in rows}
    assert len(rows) == len(by_path) == nodes
    assert all(is_valid(path) for path in by_path)
    children = Counter(parent_of(path) for path in by_path if path != "/")
    newest = {}
    for row in sorted(rows, key=lambda row: row.czxid):
        if row.path != "/":
            newest[parent_of(row.path)] = row.czxid
    for row in rows:
        assert row.created >= children[row.path]
        assert row.pzxid == newest.get(row.path, row.czxid)
        assert row.czxid + row.version == row.mzxid <= tree.last_zxid(nodes)
    assert len({row.czxid for row in rows}) == nodes


def test_a_tree_has_what_makes_a_move_hard() -> None:
    rows = [row for number in range(2) for row in tree.table(number)]
    ids = {session.id for session in tree.sessions()}
    owners = {row.owner for row in rows if row.owner}
    assert owners
    assert owners <= ids
    assert all(map(is_session, owners))
    assert {row.acl is None for row in rows} == {True, False}
    assert {None, b""} < {row.data for row in rows}
    sequential = {row.path.rpartition("-")[2] for row in rows if "/log/log-" in row.path}
    log = next(row for row in rows if row.path.endswith("/log"))
    assert max(map(int, sequential)) + 1 == log.created > len(sequential)


def test_a_tree_has_a_least_size() -> None:
    with pytest.raises(ValueError, match="11 znodes at least"):
        tree.tables_of(10)
