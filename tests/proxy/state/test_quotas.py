"""Quotas: what is counted, what the stats node says, how limits are read, and what they refuse."""

from collections import UserDict
from typing import cast
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from codec.constants import ErrorCode
from lab.oracle.requests import Create
from proxy.state import quotas
from proxy.state.capture import new_machine
from proxy.state.node import Node, full_node
from proxy.state.outcome import Refusal, Warned
from proxy.state.pause import Lengths, Pause
from proxy.state.quotas import Quota, QuotaLimits, Quotas, check, read_limits
from proxy.state.rights import OPEN
from proxy.state.transaction import Transaction
from schema.paths import parent_of
from tests.proxy.state.test_pause import Counting
from tests.proxy.state.world import Ask, World, all_pages, assert_sound, reloaded, request_of
from tests.table import one_by_one

_LIMITS = "/zookeeper/quota{}/zookeeper_limits"
_STATS = "/zookeeper/quota{}/zookeeper_stats"


class Servant:
    """A tree whose nodes are changed without asking anybody."""

    def __init__(self, *paths: str, quota: str = "", limits: bytes = b"") -> None:
        """These nodes, of five bytes each, and a quota on one of them."""
        self.machine = new_machine(1)
        self.tree = self.machine.tree
        self.tx = Transaction(self.tree, self.machine.sessions, self.machine.digest)
        for path in paths:
            self.put(path, b"12345")
        if quota:
            for path in (f"/zookeeper/quota{quota}", _STATS.format(quota)):
                self.put(path, b"count=0,bytes=0")
            self.put(_LIMITS.format(quota), limits)
        self.tx.commit()

    def put(self, path: str, data: bytes | None = b"") -> None:
        """Give a node data; create it if it is not there, with what is above it."""
        nodes, above = self.tree.nodes, parent_of(path)
        if path in nodes:
            self.tx.set_data(path, nodes[path], data)
            return
        if above not in nodes:
            self.put(above)
        self.tx.create(path, above, nodes[above], data, OPEN, 0)

    def delete(self, path: str) -> None:
        nodes, above = self.tree.nodes, parent_of(path)
        self.tx.delete(path, above, nodes[above], nodes[path])


def test_the_root_has_no_quota_nor_has_what_is_gone() -> None:
    servant = Servant()
    for path in ("", "/a"):
        servant.put(_LIMITS.format(path), b"count=1")
        servant.put(_STATS.format(path))
    servant.delete(_LIMITS.format("/a"))
    servant.delete(_STATS.format("/a"))
    servant.tx.commit()
    assert not servant.tree.quotas


def test_a_node_with_the_name_of_limits_elsewhere_makes_no_quota() -> None:
    servant = Servant(quota="/b")
    servant.put("/zookeeper/other/a/zookeeper_limits")  # "/a" is where it is in the path of a quota
    servant.tx.commit()
    assert set(servant.tree.quotas) == {"/b"}


class Steps(Pause):
    """Counts the steps of which it is told."""

    def __init__(self) -> None:
        super().__init__(Lengths(every=1 << 40))
        self.before = 0

    @override
    def __call__(self) -> None:
        self.before = self.count
        super().__call__()

    @property
    def count(self) -> int:
        return self.before + self.every - self._left


def _deep(depth: int) -> list[str]:
    return ["/a" * steps for steps in range(1, depth + 1)]


def _with_quotas(paths: list[str]) -> Servant:
    """A quota at each path, set by one request."""
    servant = Servant(*paths)
    for path in paths:
        servant.put(_STATS.format(path))
    servant.tx.commit()
    return servant


def _stats(servant: Servant, path: str) -> bytes | None:
    return full_node(servant.tree.nodes, _STATS.format(path)).data


def test_changes_below_many_quotas_are_added_up_first() -> None:
    paths = _deep(100)
    servant = _with_quotas(paths)
    with mock.patch.object(Quotas, "from_parent", autospec=True, side_effect=Quotas.from_parent) as looks:
        for number in range(300):
            servant.put(f"{paths[-1]}/{number}", b"123")
        for number in range(100):
            servant.put(f"{paths[-1]}/{number}", b"1")
            servant.delete(f"{paths[-1]}/{number + 100}")
        servant.put(paths[-1], b"")
        servant.tx.commit()
    assert looks.call_count == 2, "one for each parent of a node that was changed"
    for depth, path in enumerate(paths, 1):
        size = 100 + 300 + 5 * (100 - depth)
        assert _stats(servant, path) == b"count=%d,bytes=%d" % (301 - depth, size)


def test_changes_below_many_quotas_pause() -> None:
    paths = _deep(100)
    servant = _with_quotas(paths)
    servant.tx.pause = pause = Steps()
    for number in range(30):
        servant.put(f"{paths[-1]}/{number}")
        servant.tx.check_quota(f"{paths[-1]}/{number}", 1, 0)
        servant.put(f"{paths[number]}/b")
    before = pause.count
    assert before >= 30 * 100, "each check"
    servant.tx.commit()
    assert pause.count - before >= 30 + 100


def test_a_quota_of_many_above_many_parents_is_added_to_once() -> None:
    """Each ephemeral of a session that ends has a parent of its own, below the same quotas."""
    paths = _deep(100)
    servant = _with_quotas(paths)
    parents = [f"{paths[-1]}/{number}" for number in range(50)]
    for parent in (*parents, *(f"{path}/x" for path in paths)):
        servant.put(f"{parent}/e", b"123")
    with mock.patch.object(Quota, "add", autospec=True, side_effect=Quota.add) as added:
        servant.tx.commit()
    assert added.call_count == len(paths)
    for depth, path in enumerate(paths, 1):
        above = 101 - depth
        count = above + 2 * (above + 50)
        assert _stats(servant, path) == b"count=%d,bytes=%d" % (count, 5 * above + 3 * (above + 50))


def test_nested_quotas_that_are_new_are_counted_by_one_walk() -> None:
    paths = _deep(100)
    servant = Servant(*paths, *(f"{paths[-1]}/{number}" for number in range(2000)))
    servant.tx.commit()
    for number in range(20_000):  # so that the walk is no search of the whole tree
        servant.put(f"/b/{number}")
    for path in paths:
        servant.put(_STATS.format(path))
    servant.tx.pause = pause = Steps()
    servant.tx.commit()
    assert pause.count < 3 * len(servant.tree.nodes)
    for depth, path in enumerate(paths, 1):
        count = 2101 - depth
        assert _stats(servant, path) == b"count=%d,bytes=%d" % (count, 5 * count)


class Visited(UserDict[str, Node]):
    """The nodes of a tree. Counts how often one is looked at."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        super().__init__()
        self.data = nodes
        self.count = 0

    @override
    def __getitem__(self, path: str) -> Node:
        self.count += 1
        return super().__getitem__(path)


def _visited(servant: Servant) -> Visited:
    """To be called before there is a quota."""
    visited = Visited(servant.tree.nodes)
    servant.tree.quotas = Quotas(cast("dict[str, Node]", visited))
    return visited


def _set_and_unset(servant: Servant, path: str) -> bytes | None:
    """Set a quota by one request, and take it away by another; what it has counted."""
    servant.put(_STATS.format(path))
    servant.tx.commit()
    counted = _stats(servant, path)
    servant.delete(_STATS.format(path))
    servant.tx.commit()
    return counted


@pytest.mark.parametrize("others", [0, 5000])
def test_a_quota_that_comes_and_goes_is_counted_once(others: int) -> None:
    servant = Servant("/a", *(f"/a/{number}" for number in range(2000)))
    for number in range(others):
        servant.put(f"/b/{number}")
    servant.tx.commit()
    visited = _visited(servant)
    for number in range(50):
        assert _set_and_unset(servant, "/a") == b"count=%d,bytes=%d" % (2001 - number, 10_005 - 5 * number)
        servant.delete(f"/a/{number}")
        servant.tx.commit()
    assert visited.count < 2 * len(servant.tree.nodes)


def test_quotas_along_a_path_are_not_counted_one_by_one() -> None:
    paths = _deep(50)
    servant = Servant(*paths, *(f"{paths[-1]}/{number}" for number in range(5000)))
    servant.tx.commit()
    visited = _visited(servant)
    for depth, path in enumerate(paths):
        count = 5050 - depth
        assert _set_and_unset(servant, path) == b"count=%d,bytes=%d" % (count, 5 * count)
    assert visited.count < 4 * len(servant.tree.nodes)


def test_a_quota_on_one_of_many_siblings_visits_few_of_them() -> None:
    servant = Servant("/a", *(f"/a/{number}" for number in range(5000)))
    servant.tx.commit()
    visited = _visited(servant)
    _set_and_unset(servant, "/a")
    visited.count = 0
    for number in range(100):
        assert _set_and_unset(servant, f"/a/{number}") == b"count=1,bytes=5"
    assert visited.count < 100 * 10


def test_a_mebibyte_of_paths_of_quotas_that_are_gone_is_kept() -> None:
    servant = Servant()
    short = [f"/s{number}" for number in range(1030)]
    for path in short:
        _set_and_unset(servant, short[0])
        _set_and_unset(servant, path)
    assert set(servant.tree.quotas) == {short[0], *short[-1023:]}
    long = [f"/{number}{'l' * 100_000}" for number in range(20)]
    for path in long:
        _set_and_unset(servant, path)
    kept = list(servant.tree.quotas)
    assert long[-1] in kept
    assert (1 << 20) - 100_002 < sum(max(len(path), 1024) for path in kept) <= 1 << 20
    servant.put(_LIMITS.format("/still"))
    servant.tx.commit()
    _set_and_unset(servant, f"/{'l' * (1 << 20)}")
    assert set(servant.tree.quotas) == {"/still"}


_PATHS = ["/a", "/a/b", "/a/b/c", "/b", "/a/x", "/ab"]
# Names of stats nodes that are none.
_PATHS += ["/a/zookeeper_stats", "/zookeeper/zookeeper_stats", "/zookeeper/quota/a/no_zookeeper_stats"]
_QUOTAS = ("/a", "/a/b", "/b", "/zookeeper")
_QUOTA_PATHS = [node.format(path) for path in _QUOTAS for node in (_LIMITS, _STATS)]


@given(
    st.lists(
        st.tuples(st.sampled_from(_PATHS + _QUOTA_PATHS), st.sampled_from([b"", b"one", b"three", None])),
        max_size=40,
    ),
    st.sampled_from([1, 2, 1024]),
    st.sampled_from([1, 2, 64]),
    st.data(),
)
def test_the_numbers_are_right_whatever_comes_and_goes(
    steps: list[tuple[str, bytes | None]], kept: int, in_turn: int, draw: st.DataObject
) -> None:
    with mock.patch.multiple(quotas, _KEPT=kept << 10, _IN_TURN=in_turn, WALK_COSTS=in_turn):
        _judge(steps, draw)


def _judge(steps: list[tuple[str, bytes | None]], draw: st.DataObject) -> None:
    servant = Servant()
    tree = servant.tree
    for path in _QUOTAS:
        servant.put(f"/zookeeper/quota{path}")
    servant.tx.commit()
    for path, data in steps:
        node = tree.nodes.get(path)
        if node is None and path.rpartition("/")[0] not in ("", *tree.nodes):
            continue
        if node is None or data is not None:
            servant.put(path, data)
        elif not node.children:
            servant.delete(path)
        what = draw.draw(st.sampled_from(["commit", "commit", "go on", "rollback"]))
        if what == "go on":
            continue  # several changes in one request
        servant.tx.commit() if what == "commit" else servant.tx.rollback()
        for of in _QUOTAS:
            stats = tree.nodes.get(_STATS.format(of))
            below = [other for other in tree.nodes if other == of or other.startswith(of + "/")]
            counted = [other for other in below if other not in _QUOTA_PATHS or other.endswith("_limits")]
            size = sum(len(tree.nodes[other].data or b"") for other in counted)
            if stats is not None:
                assert stats.data == b"count=%d,bytes=%d" % (len(below), size)
            assert (tree.quotas.limited(of + "/z") == of) is (_LIMITS.format(of) in tree.nodes)
        assert_sound(servant.machine)
        loaded = reloaded(servant.machine)
        assert all_pages(loaded) == all_pages(servant.machine)
        assert {path: quota.limits for path, quota in loaded.tree.quotas.items()} == {
            path: quota.limits for path, quota in tree.quotas.items() if quota.has_limits or quota.stats
        }


@one_by_one(
    ("data", "limits"),
    [
        (b"", QuotaLimits()),
        (b"count=4,bytes=5=;byteHardLimit=7;countHardLimit=6", QuotaLimits(4, 5, 6, 7)),
        (b"count=-1,bytes=-1", QuotaLimits()),
        (b"count=4;bytes=5,", QuotaLimits(4, 5)),
        (b"count=+4,,;count=5", QuotaLimits(5)),
        (b"count==7", QuotaLimits()),
        (b"other=4", QuotaLimits()),
        (b",", QuotaLimits()),
        (None, None),
        (b"count=", None),
        (b"count", None),
        (b"=", None),
        (b",count=4", None),
        (b"count=x", None),
        (b"count=4 ", None),
        (b"count=4.5", None),
        (b"count=9223372036854775807", QuotaLimits((1 << 63) - 1)),
        (b"count=9223372036854775808", None),
        (b"count=" + b"9" * 5000, None),
        (b"count=-" + b"0" * 5000 + b"7", QuotaLimits(-7)),
        (b"count=" + b"0" * 5000, QuotaLimits(0)),
        (b"count=+", None),
        (b"count=+0;bytes=00", QuotaLimits(0, 0)),
        (b"count=4,;,;bytes=5;,", QuotaLimits(4, 5)),
        (b"count=4,=,bytes=5", None),
        (b"count=4=5=6", QuotaLimits(4)),
        ("count=\u0664".encode(), QuotaLimits(4)),
        ("count=\U0001d7cf".encode(), None),
        (b"\xff", None),
    ],
)
def test_limits_are_read_as_java_reads_them(data: bytes | None, limits: QuotaLimits | None) -> None:
    assert read_limits(data) == limits


def test_very_many_limits_are_read_with_pauses() -> None:
    world = World()
    pause = world.machine.transaction.pause = Counting(16)
    world.do(Create("/zookeeper/quota/a"), Create("/zookeeper/quota/a/zookeeper_limits", b"=1," * 3200))
    assert pause.calls >= 200
    assert world.machine.tree.quotas["/a"].limits == QuotaLimits()


def _judged(limits: bytes, *, enforce: bool, count: int = 1, size: int = 0, path: str = "/a/new") -> object:
    """What comes of a request in a tree whose /a has two nodes and ten bytes: refusal, or the reply."""
    quotas = Servant("/a", "/a/b", quota="/a", limits=limits).tree.quotas
    told: list[Warned] = []
    try:
        check(quotas, path, count, size, told, enforce=enforce)
    except Refusal as refusal:
        return refusal.code
    return told


_COUNT, _BYTES = "count would be 3", "bytes would be 15"


@one_by_one(
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


def test_the_nearest_limits_count_where_there_are_stats() -> None:
    assert _judged(b"countHardLimit=0", enforce=True, path="/ab") == []
    servant = Servant("/a", "/a/b", quota="/a", limits=b"countHardLimit=0")
    servant.put(_STATS.format("/a/b"))
    servant.tx.commit()
    with pytest.raises(Refusal):
        check(servant.tree.quotas, "/a/b/c", 1, 0, [], enforce=True)
    servant.put(_LIMITS.format("/a/b"))
    servant.tx.commit()
    check(servant.tree.quotas, "/a/b/c", 1, 0, [], enforce=True)
    servant.delete(_STATS.format("/a"))
    servant.tx.commit()
    check(servant.tree.quotas, "/a/new", 1, 0, [], enforce=True)


def test_the_sender_alone_warns() -> None:
    world = World()
    limits, stats = (f"/zookeeper/quota/a/zookeeper_{name}" for name in ("limits", "stats"))
    world.do(Create("/a"), Create("/zookeeper/quota/a"), Create(limits, b"count=1"), Create(stats))
    for own, path in ((False, "/a/1"), (True, "/a/2")):
        world.enter(request_of(Ask(1, Create(path))), own=own)
        told = [("/a", "count would be 3, soft limit 1")] if own else []
        assert world.machine.transaction.warnings == told
    world.do(Create("/b"))
    assert world.machine.transaction.warnings == []
