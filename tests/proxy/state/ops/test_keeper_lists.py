"""Keeper's lists, against their declarations."""

from typing import Any

import pytest

from codec import records
from codec.constants import ErrorCode, KeeperOpCode, ListFilter
from codec.packets import STAT
from proxy.state.operation import Reading
from proxy.state.ops import EXTENDED
from proxy.state.ops.reads import find
from proxy.state.refusal import Refusal
from proxy.state.tree import Node
from tests.codec.generate import plain
from tests.proxy.state.naive import Create, SetData
from tests.proxy.state.ops.room import CLOSED, do, room
from tests.proxy.state.ops.test_reads import Client, held
from tests.proxy.state.world import World


def _ask(world: World, code: KeeperOpCode, client: Client | None = None, **fields: Any) -> Any:
    request = records.encode(records.KEEPER_REQUESTS[code], fields)
    reading = world.reading
    reply = EXTENDED.reads[code](reading, client or Client(), b"head" + request, 4)
    decoded = records.decode(records.KEEPER_RESPONSES[code], reply)
    assert records.encode(records.KEEPER_RESPONSES[code], decoded) == reply
    return plain(decoded)


def _filtered(
    world: World, path: str, only: int, *, watch: bool = False, client: Client | None = None
) -> Any:
    return _ask(world, KeeperOpCode.FILTERED_LIST, client, path=path, watch=watch, filter=only)


def _stat(world: World, path: str) -> tuple[int, ...]:
    return STAT.unpack(world.machine.tree.nodes[path].stat())


def test_children_of_one_kind() -> None:
    world = room()
    everything = _filtered(world, "/", ListFilter.ALL)
    assert tuple(everything["stat"].values()) == _stat(world, "/")
    assert sorted(everything["children"]) == ["brief", "closed", "open", "read-only", "zookeeper"]
    assert _filtered(world, "/", ListFilter.EPHEMERAL)["children"] == ["brief"]
    assert sorted(_filtered(world, "/", ListFilter.PERSISTENT)["children"]) == [
        "closed",
        "open",
        "read-only",
        "zookeeper",
    ]
    assert _filtered(world, "/open/child", ListFilter.EPHEMERAL)["children"] == []


@pytest.mark.parametrize(
    ("path", "only", "code"),
    [
        ("/missing", 0, ErrorCode.NO_NODE),
        ("/closed", 0, ErrorCode.NO_AUTH),
        ("/open", 3, ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(path: str, only: int, code: ErrorCode) -> None:
    world = room()
    client = Client()
    with pytest.raises(Refusal) as refusal:
        _filtered(world, path, only, watch=True, client=client)
    assert refusal.value.code is code
    with pytest.raises(Refusal) as refusal:
        _with_more(world, path, only, client=client, watch=True)
    assert refusal.value.code is code
    assert world.watches.total() == 0


def _with_more(world: World, path: str, only: int, **options: Any) -> Any:
    asked = {"watch": False, "withStat": True, "withData": True, **options}
    client = asked.pop("client", None)
    fields = {"path": path, "watch": asked.pop("watch"), "filter": only, **asked}
    return _ask(world, KeeperOpCode.LIST_WITH_STAT_AND_DATA, client, **fields)


def test_stats_and_data_stand_in_the_order_of_the_names() -> None:
    world = room()
    do(world, Create("/open/empty", None), Create("/open/other", b"o"), SetData("/open/child", b"c"))
    answer = _with_more(world, "/open", ListFilter.ALL)
    expected = {"child": b"c", "other": b"o", "empty": None}
    assert dict(zip(answer["children"], answer["data"], strict=True)) == expected
    for name, stat in zip(answer["children"], answer["stats"], strict=True):
        assert tuple(stat.values()) == _stat(world, f"/open/{name}")
    assert tuple(answer["stat"].values()) == _stat(world, "/open")


@pytest.mark.parametrize("with_stat", [False, True])
@pytest.mark.parametrize("with_data", [False, True])
def test_what_is_not_asked_for_is_empty(with_stat: bool, with_data: bool) -> None:
    world = room()
    answer = _with_more(world, "/open", ListFilter.ALL, withStat=with_stat, withData=with_data)
    assert (len(answer["stats"]), len(answer["data"])) == (int(with_stat), int(with_data))


def test_a_child_that_may_not_be_read() -> None:
    world = room()
    names = _with_more(world, "/", ListFilter.ALL, withStat=False, withData=False)["children"]
    assert "closed" in names
    for options in ({"withStat": False}, {"withData": False}):
        with pytest.raises(Refusal) as refusal:
            _with_more(world, "/", ListFilter.ALL, **options)
        assert refusal.value.code is ErrorCode.NO_AUTH
    assert _with_more(world, "/", ListFilter.EPHEMERAL)["children"] == ["brief"]


def test_more_than_one_reply_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    do(world, SetData("/open/child", bytes(1000)))
    monkeypatch.setattr("proxy.state.ops.bounded.MOST", 1000)
    assert _with_more(world, "/open", ListFilter.ALL, withData=False)["stats"]
    with pytest.raises(Refusal) as refusal:
        _with_more(world, "/open", ListFilter.ALL)
    assert refusal.value.code is ErrorCode.BAD_ARGUMENTS


def test_the_watch_is_one_on_children() -> None:
    world = room()
    first, second = Client(), Client()
    _filtered(world, "/open", ListFilter.EPHEMERAL, watch=True, client=first)
    _with_more(world, "/", ListFilter.EPHEMERAL, watch=True, client=second)
    for client, path in ((first, "/open"), (second, "/")):
        assert held(world, client) == [set(), {path}, set(), set()]


def _below(world: World, path: str, limit: int) -> Any:
    return _ask(world, KeeperOpCode.LIST_RECURSIVE, None, path=path, limit=limit)["paths"]


def test_everything_below_a_node() -> None:
    world = room()
    do(world, Create("/open/child/x"), Create("/open/a"))
    everything = ["/open/a", "/open/child", "/open/child/x"]
    for limit in (0, 1, 2, 3, 1000, 2**32 - 1):
        assert _below(world, "/open", limit) == everything[:limit]
    assert _below(world, "/open/child/x", 10) == []
    assert set(_below(world, "/", 100)) == set(world.machine.tree.nodes) - {"/"}
    do(world, Create("/open/child/locked"), Create("/open/a/closed", acl=CLOSED))
    assert len(_below(world, "/open", 100)) == 5


@pytest.mark.parametrize(("path", "code"), [("/missing", ErrorCode.NO_NODE), ("/closed", ErrorCode.NO_AUTH)])
def test_what_cannot_be_listed(path: str, code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refusal:
        _below(room(), path, 10)
    assert refusal.value.code is code


def test_no_more_children_are_looked_at_than_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    do(world, *(Create(f"/open/n{number:02}") for number in range(50)))
    looked: list[str] = []

    def watched(reading: Reading, path: str) -> Node:
        looked.append(path)
        return find(reading, path)

    monkeypatch.setattr("proxy.state.ops.keeper_lists.find", watched)
    assert _below(world, "/open", 3) == ["/open/child", "/open/n00", "/open/n01"]
    assert len(looked) == 4
