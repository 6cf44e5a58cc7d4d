"""verify finds every kind of difference, and nothing where there is none."""

import json
from pathlib import Path

import pytest

from pipeline.jobs.compare import FIELDS, KINDS
from pipeline.jobs.trees import Tree
from pipeline.jobs.verify import compare
from pipeline.table import AclRow, ZnodeRow
from schema.paths import CONFIG
from tests.pipeline.trees import OPEN, here, node, table_of, write_parquet, write_snapshot
from zketcd.__main__ import main

STATS = "/zookeeper/quota/a/zookeeper_stats"
TTL = -(1 << 56) + 1000
LEFT = [
    node("/", 0),
    node("/same", acl=None, data=None),
    node("/gone"),
    node("/data", data=b"1"),
    node("/null", data=None),
    node("/acl", acl=(AclRow(1, "ip", "10.0.0.1"),)),
    node("/counter", created=3),
    node("/stat", 5),
    node("/container", owner=-(1 << 63)),
    node("/ttl", owner=TTL),
    node("/ephemeral", owner=77),
    node(STATS, data=b"count=1"),
]
RIGHT = [
    node("/", 0),
    node("/same", acl=OPEN, data=None),
    node("/more"),
    node("/data", data=b"2"),
    node("/null", data=b""),
    node("/acl", acl=(AclRow(1, "ip", "10.0.0.2"),)),
    node("/counter", created=4),
    node("/stat", 5, mtime=1001),
    node("/container"),
    node("/ttl"),
    node("/more/deep"),
    node(STATS, data=b"count=2"),
]


@pytest.fixture
def trees() -> tuple[Tree, Tree]:
    left, right = table_of(*LEFT), table_of(*RIGHT)
    return Tree("left", left), Tree("right", right)


def test_every_kind_of_difference_is_found_and_shown(trees: tuple[Tree, Tree]) -> None:
    found = compare(here(), *trees)
    assert (found.left, found.right, found.equal) == (12, 12, False)
    assert found.counts == {
        "missing": 2,
        "extra": 2,
        "duplicate": 0,
        "data": 2,
        "acl": 1,
        "counter": 1,
        "stat": 3,
    }
    shown = {(one.kind, one.path): one.fields for one in found.samples}
    assert set(shown) == {
        ("missing", "/ephemeral"),
        ("missing", "/gone"),
        ("extra", "/more"),
        ("extra", "/more/deep"),
        ("data", "/data"),
        ("data", "/null"),
        ("acl", "/acl"),
        ("counter", "/counter"),
        ("stat", "/stat"),
        ("stat", "/container"),
        ("stat", "/ttl"),
    }
    assert shown["counter", "/counter"] == {"created": ("3", "4")}
    assert shown["stat", "/stat"] == {"mtime": ("1000", "1001")}
    assert shown["data", "/null"] == {"data": ("null", "d41d8cd98f00b204e9800998ecf8427e of 0 bytes")}


def test_what_may_differ_can_be_left_out(trees: tuple[Tree, Tree]) -> None:
    left, right = trees
    found = compare(
        here(), left, right._replace(walked_from=1), ignored=["/more", "/data"], ephemerals=False, samples=0
    )
    assert found.counts == {
        "missing": 1,
        "extra": 0,
        "duplicate": 0,
        "data": 1,
        "acl": 1,
        "counter": 1,
        "stat": 1,
    }
    assert found.samples == ()


def test_the_end_of_ephemerals_that_are_left_out_is_no_difference() -> None:
    """An import without sessions moves the pzxid of their parents, as their end in ZooKeeper does."""

    def side(*rows: ZnodeRow) -> Tree:
        return Tree("", table_of(*rows))

    left = [node("/", 0), node("/e", owner=5), node("/a"), node("/a/e", owner=5), node("/b"), node("/c")]
    right = [node("/", 0, pzxid=9), node("/a", pzxid=9), node("/b", pzxid=9), node("/c")]
    for pair in ((side(*left), side(*right)), (side(*right), side(*left))):
        found = compare(here(), *pair, ephemerals=False)
        assert found.counts == {kind: int(kind == "stat") for kind in KINDS}
        assert [one.path for one in found.samples] == ["/b"]
    right[1] = node("/a", pzxid=9, version=1)
    assert compare(here(), side(*left), side(*right), ephemerals=False).counts["stat"] == 2


def test_a_path_that_occurs_twice_is_a_difference(trees: tuple[Tree, Tree]) -> None:
    left, _ = trees
    twice = left._replace(znodes=table_of(*LEFT, node("/gone")))
    for pair in ((left, twice), (twice, left), (twice, twice)):
        found = compare(here(), *pair)
        assert not found.equal
        assert [one.path for one in found.samples if one.kind == "duplicate"] == ["/gone"]


def test_a_tree_that_was_written_to_while_it_was_walked_is_told(trees: tuple[Tree, Tree]) -> None:
    left, _ = trees
    found = compare(here(), left._replace(walked_from=4), left._replace(walked_from=5))
    assert found.equal
    assert [note.split()[0] for note in found.notes] == ["left"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [node("/", 0), node("/a", data=b"x")]
    write_snapshot(tmp_path / "one", 5, rows)
    write_snapshot(tmp_path / "two", 5, [*rows, node("/b")])
    table = write_parquet(tmp_path / "table", *rows)
    assert main(["verify", str(tmp_path / "one"), table]) == 0
    assert capsys.readouterr().out.endswith("equal\n")
    assert main(["verify", str(tmp_path / "one"), str(tmp_path / "two"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["equal"] is False
    assert told["counts"] == {kind: int(kind == "extra") for kind in KINDS}
    assert told["samples"] == [["/b", "extra", {}]]


def test_rows_are_compared_as_wide_as_they_are() -> None:
    """A field that verify forgets would be a difference without a report."""
    compared = {"path", *(name for names in FIELDS.values() for name in names)}
    assert compared == set(ZnodeRow._fields)


def test_the_addresses_of_members_are_left_out() -> None:
    own = [node(CONFIG, data=b"server.1=a", version=-1, mtime=mtime) for mtime in (1, 2)]
    one, two = (Tree("s", table_of(node("/", 0), row)) for row in own)
    found = compare(here(), one, two)
    assert found.equal
    assert (found.left, found.right) == (2, 2)
    assert found.notes == (f"{CONFIG} differs and is left out: each server keeps its own addresses there",)
    assert not compare(here(), one, one).notes
