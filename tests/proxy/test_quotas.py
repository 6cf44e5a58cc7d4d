"""Quotas: what is counted, what the stats node says, how limits are read, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import ErrorCode
from proxy.quotas import Limits, check, read_limits
from proxy.refusal import Refusal
from proxy.rules import Rules
from proxy.tree import Node, Tree
from schema.values import OPEN_ACL

_LIMITS = "/zookeeper/quota{}/zookeeper_limits"
_STATS = "/zookeeper/quota{}/zookeeper_stats"


def _node(data: bytes | None = b"") -> Node:
    node = Node()
    node.data, node.acl, node.owner = data, OPEN_ACL, 0
    node.czxid = node.mzxid = node.pzxid = node.ctime = node.mtime = 1
    node.version = node.aversion = node.created = 0
    node.mod = node.counter_mod = 1
    node.explicit_czxid = False
    node.children = None
    return node


def _tree(*paths: str, quota: str = "", limits: bytes = b"") -> Tree:
    """A tree with these nodes of five bytes each, and a quota on one of them."""
    tree = Tree()
    for path in ("/", "/zookeeper", "/zookeeper/quota"):
        tree.attach(path, _node())
    for path in paths:
        tree.attach(path, _node(b"12345"))
    if quota:
        for path in (f"/zookeeper/quota{quota}", _STATS.format(quota)):
            tree.attach(path, _node(b"count=0,bytes=0"))
        tree.attach(_LIMITS.format(quota), _node(limits))
    tree.data_size += tree.quotas.settle()
    return tree


def _shown(tree: Tree, path: str) -> bytes | None:
    tree.data_size += tree.quotas.settle()
    return tree.nodes[_STATS.format(path)].data


def test_the_stats_node_counts_the_path_itself_and_all_below() -> None:
    tree = _tree("/a", "/a/b", "/a/b/c", "/ab", "/other", quota="/a")
    assert _shown(tree, "/a") == b"count=3,bytes=15"
    tree.attach("/a/null", _node(None))
    assert _shown(tree, "/a") == b"count=4,bytes=15"
    tree.quotas.changed("/a", b"12345", b"")
    tree.nodes["/a"].data = b""
    tree.attach("/other/x", _node(b"x"))
    assert _shown(tree, "/a") == b"count=4,bytes=10"
    tree.detach("/a/b/c")
    assert _shown(tree, "/a") == b"count=3,bytes=5"


def test_what_a_client_writes_into_the_stats_node_does_not_stay() -> None:
    tree = _tree("/a", quota="/a")
    stats = tree.nodes[_STATS.format("/a")]
    tree.quotas.changed(_STATS.format("/a"), stats.data, b"count=99,bytes=99")
    stats.data = b"count=99,bytes=99"
    assert _shown(tree, "/a") == b"count=1,bytes=5"
    assert (stats.version, stats.mzxid) == (0, 1)


def test_a_path_that_is_not_there_counts_nothing() -> None:
    tree = _tree(quota="/a/b")
    assert _shown(tree, "/a/b") == b"count=0,bytes=0"


def test_the_root_has_no_quota() -> None:
    tree = _tree()
    tree.attach("/zookeeper/quota/zookeeper_limits", _node(b"count=1"))
    tree.attach("/zookeeper/quota/zookeeper_stats", _node(b""))
    assert not tree.quotas


def test_a_quota_is_forgotten_with_its_nodes() -> None:
    tree = _tree("/a", quota="/a")
    tree.detach(_LIMITS.format("/a"))
    assert tree.quotas.limited("/a") is None
    tree.attach("/a/b", _node())
    assert _shown(tree, "/a") == b"count=2,bytes=5"
    tree.detach(_STATS.format("/a"))
    assert not tree.quotas
    assert tree.quotas.settle() == 0


_PATHS = ["/a", "/a/b", "/a/b/c", "/b", "/a/x", "/ab"]
_QUOTA_PATHS = [node.format(path) for path in ("/a", "/a/b", "/b") for node in (_LIMITS, _STATS)]


@given(
    st.lists(
        st.tuples(st.sampled_from(_PATHS + _QUOTA_PATHS), st.sampled_from([b"", b"one", b"three", None])),
        max_size=40,
    )
)
def test_the_numbers_are_right_whatever_comes_and_goes(steps: list[tuple[str, bytes | None]]) -> None:
    tree = _tree()
    for path in ("/a", "/a/b", "/b"):
        tree.attach(f"/zookeeper/quota{path}", _node())
    for number, (path, data) in enumerate(steps):
        node = tree.nodes.get(path)
        if node is None:
            if path.rpartition("/")[0] not in ("", *tree.nodes):
                continue
            tree.attach(path, _node(data))
        elif data is not None:
            if tree.quotas:
                tree.quotas.changed(path, node.data, data)
            tree.data_size += len(data) - len(node.data or b"")
            node.data = data
        elif not node.children:
            tree.detach(path)
        if number % 3 == 0:
            continue  # several changes within one revision
        tree.data_size += tree.quotas.settle()
        for of in ("/a", "/a/b", "/b"):
            stats = tree.nodes.get(_STATS.format(of))
            below = [other for other in tree.nodes if other == of or other.startswith(of + "/")]
            size = sum(len(tree.nodes[other].data or b"") for other in below)
            if stats is not None:
                assert stats.data == b"count=%d,bytes=%d" % (len(below), size)
            assert (tree.quotas.limited(of + "/z") == of) is (_LIMITS.format(of) in tree.nodes)
        assert tree.data_size == sum(len(path) + len(node.data or b"") for path, node in tree.nodes.items())


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (b"", Limits()),
        (b"count=4,bytes=5=;byteHardLimit=7;countHardLimit=6", Limits(4, 5, 6, 7)),
        (b"count=-1,bytes=-1", Limits()),
        (b"count=4;bytes=5,", Limits(4, 5)),
        (b"count=+4,,;count=5", Limits(5)),
        (b"count==7", Limits()),
        (b"other=4", Limits()),
        (b",", Limits()),
        (None, None),
        (b"count=", None),
        (b"count", None),
        (b"=", None),
        (b",count=4", None),
        (b"count=x", None),
        (b"count=4 ", None),
        (b"count=4.5", None),
        (b"count=9223372036854775807", Limits((1 << 63) - 1)),
        (b"count=9223372036854775808", None),
        (b"count=" + b"9" * 5000, None),
        (b"count=-" + b"0" * 5000 + b"7", Limits(-7)),
        (b"\xff", None),
    ],
)
def test_limits_are_read_as_java_reads_them(data: bytes | None, limits: Limits | None) -> None:
    assert read_limits(data) == limits


def _judged(limits: bytes, *, enforce: bool, count: int = 1, size: int = 0, path: str = "/a/new") -> object:
    """What comes of a request in a tree whose /a has two nodes and ten bytes: refusal, or what was told."""
    tree = _tree("/a", "/a/b", quota="/a", limits=limits)
    told: list[tuple[str, str]] = []
    rules = Rules(enforce_quota=enforce, quota_exceeded=lambda *what: told.append(what))
    try:
        check(tree.quotas, rules, path, count, size)
    except Refusal as refusal:
        return refusal.code
    return told


_COUNT, _BYTES = "count would be 3", "bytes would be 15"


@pytest.mark.parametrize(
    ("limits", "count", "size", "refused", "told"),
    [
        (b"count=3", 1, 0, None, []),
        (b"count=2", 1, 0, None, [f"{_COUNT}, soft limit 2"]),
        (b"countHardLimit=3", 1, 9, None, []),
        (b"countHardLimit=2", 1, 0, ErrorCode.QUOTA_EXCEEDED, [f"{_COUNT}, hard limit 2"]),
        (b"count=1;countHardLimit=3", 1, 0, None, []),  # the hard one takes the soft one's place
        (b"countHardLimit=1", 0, 9, None, []),  # a setData adds no node
        (b"bytes=15", 0, 5, None, []),
        (b"bytes=14,count=2", 1, 5, None, [f"{_COUNT}, soft limit 2", f"{_BYTES}, soft limit 14"]),
        (b"byteHardLimit=14", 0, 5, ErrorCode.QUOTA_EXCEEDED, [f"{_BYTES}, hard limit 14"]),
        (b"byteHardLimit=0", 0, 0, None, []),
        (b"byteHardLimit=0", 0, -1, ErrorCode.QUOTA_EXCEEDED, ["bytes would be 9, hard limit 0"]),
        (b"nonsense", 1, 0, ErrorCode.MARSHALLING_ERROR, []),
    ],
)
def test_what_exceeds_a_quota(
    limits: bytes, count: int, size: int, refused: ErrorCode | None, told: list[str]
) -> None:
    warned = [("/a", message) for message in told]
    assert _judged(limits, enforce=False, count=count, size=size) == warned
    assert _judged(limits, enforce=True, count=count, size=size) == (refused or warned)


def test_where_no_quota_speaks() -> None:
    assert _judged(b"countHardLimit=0", enforce=True, path="/ab") == []
    tree = _tree("/a", quota="/a", limits=b"countHardLimit=0")
    tree.detach(_STATS.format("/a"))
    check(tree.quotas, Rules(enforce_quota=True), "/a/new", 1, 0)


def test_the_nearest_limits_count() -> None:
    tree = _tree("/a", "/a/b", quota="/a", limits=b"countHardLimit=0")
    tree.attach("/zookeeper/quota/a/b", _node())
    tree.attach(_STATS.format("/a/b"), _node())
    with pytest.raises(Refusal):
        check(tree.quotas, Rules(enforce_quota=True), "/a/b/c", 1, 0)
    tree.attach(_LIMITS.format("/a/b"), _node(b""))
    check(tree.quotas, Rules(enforce_quota=True), "/a/b/c", 1, 0)
