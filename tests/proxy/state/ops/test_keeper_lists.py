"""Keeper's lists, as the oracle reads them."""

from typing import Any

import pytest

from codec.constants import ErrorCode, KeeperOpCode, ListFilter
from codec.jute import pack_strings
from codec.packets import STAT
from lab.oracle import records
from lab.oracle.requests import Create, SetAcl, SetData, body_of
from lab.oracle.wire import Cursor
from proxy.state.node import Node
from proxy.state.operation import Reading
from proxy.state.ops.reads import find
from tests.proxy.state.ops.room import CLOSED, Client, do, held, read, refused, room
from tests.proxy.state.world import World
from tests.table import one_by_one

_CHILDREN, _FULL, _BELOW = (
    KeeperOpCode.FILTERED_LIST,
    KeeperOpCode.LIST_WITH_STAT_AND_DATA,
    KeeperOpCode.LIST_RECURSIVE,
)
_LIST = {"children": records.TEXTS, "stat": records.STAT}
_REPLIES = {
    _CHILDREN: _LIST,
    _FULL: {**_LIST, "stats": records.STATS, "data": records.BUFFERS},
    _BELOW: {"paths": records.TEXTS},
}


def _request(code: KeeperOpCode, path: str, only: int = ListFilter.ALL, **options: Any) -> bytes:
    return body_of(code, path=path, only=only, **options)


def _ask(world: World, code: KeeperOpCode, *asked: Any, client: Client | None = None, **options: Any) -> Any:
    cursor = Cursor(read(world, code, _request(code, *asked, **options), client))
    fields = records.read(_REPLIES[code], cursor)
    cursor.finish()
    return fields


def _stat(world: World, path: str) -> tuple[int, ...]:
    return STAT.unpack(world.nodes[path].stat())


def test_children_of_one_kind() -> None:
    world = room()
    lasting = ["closed", "open", "read-only", "zookeeper"]
    everything = _ask(world, _CHILDREN, "/")
    assert everything["stat"] == _stat(world, "/")
    assert sorted(everything["children"]) == ["brief", *lasting]
    assert sorted(_ask(world, _CHILDREN, "/", ListFilter.PERSISTENT)["children"]) == lasting
    assert _ask(world, _CHILDREN, "/", ListFilter.EPHEMERAL)["children"] == ("brief",)
    assert _ask(world, _CHILDREN, "/open/child", ListFilter.EPHEMERAL)["children"] == ()


@one_by_one("code", [_CHILDREN, _FULL, _BELOW])
@one_by_one(
    ("path", "only", "refusal"),
    [
        ("/missing", 0, ErrorCode.NO_NODE),
        ("/closed", 0, ErrorCode.NO_AUTH),
        ("/open", 3, ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(code: KeeperOpCode, path: str, only: int, refusal: ErrorCode) -> None:
    world = room()
    if code is not _BELOW:
        assert refused(world, code, _request(code, path, only, watch=True)) is refusal
    elif not only:
        assert refused(world, code, _request(code, path, limit=10)) is refusal
    assert world.watches.total() == 0


def test_stats_and_data_stand_in_the_order_of_the_names() -> None:
    world = room()
    do(world, Create("/open/empty", None), Create("/open/other", b"o"), SetData("/open/child", b"c"))
    answer = _ask(world, _FULL, "/open")
    expected = {"child": b"c", "other": b"o", "empty": None}
    assert dict(zip(answer["children"], answer["data"], strict=True)) == expected
    for name, stat in zip(answer["children"], answer["stats"], strict=True):
        assert stat == _stat(world, f"/open/{name}")
    assert answer["stat"] == _stat(world, "/open")


@pytest.mark.parametrize("with_stat", [False, True])
@pytest.mark.parametrize("with_data", [False, True])
def test_what_is_not_asked_for_is_empty_and_needs_no_permission(with_stat: bool, with_data: bool) -> None:
    world = room()
    options: dict[str, Any] = {"with_stats": with_stat, "with_data": with_data}
    answer = _ask(world, _FULL, "/open", **options)
    assert (len(answer["stats"]), len(answer["data"])) == (int(with_stat), int(with_data))
    if with_stat or with_data:
        assert refused(world, _FULL, _request(_FULL, "/", **options)) is ErrorCode.NO_AUTH
    else:
        assert "closed" in _ask(world, _FULL, "/", **options)["children"]
    assert _ask(world, _FULL, "/", ListFilter.EPHEMERAL, **options)["children"] == ("brief",)


def test_more_than_one_reply_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    do(world, SetData("/open/child", bytes(1000)))
    monkeypatch.setattr("proxy.state.bounded.MOST", 1000)
    assert _ask(world, _FULL, "/open", with_data=False)["stats"]
    assert refused(world, _FULL, _request(_FULL, "/open")) is ErrorCode.BAD_ARGUMENTS


def test_more_paths_than_one_reply_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    request = _request(_BELOW, "/", limit=100)
    size = len(pack_strings(list(set(world.nodes) - {"/"})))
    for most, code in ((size, None), (size - 1, ErrorCode.BAD_ARGUMENTS)):
        monkeypatch.setattr("proxy.state.bounded.MOST", most)
        if code is None:
            read(world, _BELOW, request)
        else:
            assert refused(world, _BELOW, request) is code


@pytest.mark.parametrize("code", [_CHILDREN, _FULL])
def test_the_watch_is_one_on_children(code: KeeperOpCode) -> None:
    world = room()
    client = Client()
    _ask(world, code, "/open", ListFilter.EPHEMERAL, watch=True, client=client)
    assert held(world, client) == [set(), {"/open"}, set(), set()]


def test_everything_below_a_node() -> None:
    world = room()
    do(world, Create("/open/child/x"), Create("/open/a"))
    everything = ("/open/a", "/open/child", "/open/child/x")
    for limit in (0, 1, 2, 3, 1000, 2**32 - 1):
        assert _ask(world, _BELOW, "/open", limit=limit)["paths"] == everything[:limit]
    assert _ask(world, _BELOW, "/open/child/x", limit=10)["paths"] == ()
    assert set(_ask(world, _BELOW, "/", limit=100)["paths"]) == set(world.nodes) - {"/"}
    do(world, Create("/open/child/locked"), Create("/open/a/closed", acls=CLOSED))
    assert len(_ask(world, _BELOW, "/open", limit=100)["paths"]) == 5


def test_nothing_is_listed_below_a_node_that_may_not_be_read() -> None:
    world = room()
    do(world, Create("/open/child/x"), SetAcl("/open/child", CLOSED))
    everything = _request(_BELOW, "/open", limit=100)
    assert refused(world, _BELOW, everything) is ErrorCode.NO_AUTH
    assert _ask(world, _BELOW, "/open", limit=1)["paths"] == ("/open/child",)


def test_no_more_children_are_looked_at_than_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    do(world, *(Create(f"/open/n{number:02}") for number in range(50)))
    looked: list[str] = []

    def watched(reading: Reading, path: str) -> Node:
        looked.append(path)
        return find(reading, path)

    monkeypatch.setattr("proxy.state.ops.keeper_lists.find", watched)
    assert _ask(world, _BELOW, "/open", limit=3)["paths"] == ("/open/child", "/open/n00", "/open/n01")
    assert len(looked) == 4
