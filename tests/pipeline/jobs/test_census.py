"""The census counts rightly and finds what cannot be moved."""

from pipeline.formats import digest
from pipeline.jobs.census import Census, Ephemeral, Obstacle, take
from pipeline.table import AclRow, ZnodeRow
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
    assert found.ephemerals == [Ephemeral("/a/e", 77)]
    assert (found.obstacles, found.obstacle_count, found.fault) == ([], 0, None)
    narrow = digest_of([one._replace(path=one.path.replace("é", "?")) for one in nodes])
    assert found.digests == {digest.signed(digest_of(nodes)), narrow}


def test_what_stands_against_it() -> None:
    nodes = [node("/", 0), node("/large", data=bytes(1 << 20)), node("/a\u0001"), node("/.."), node("/ok")]
    found = counted(*nodes)
    reasons = dict(found.obstacles)
    assert set(reasons) == {"/large", "/a\u0001", "/.."}
    assert Obstacle("/..", "ZooKeeper allows no such path") in found.obstacles
    assert found.obstacle_count == 3
