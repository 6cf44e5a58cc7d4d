"""The nodes below /keeper: found by clients that ask for them, listed to no other."""

import pytest

from codec.constants import ErrorCode, KeeperFeature, KeeperOpCode, OpCode
from codec.jute import Reader, pack_string
from lab.oracle.requests import Create
from proxy.state.ops import EXTENDED, FEATURES
from proxy.state.ops.features import feature_flags, system_nodes
from tests.proxy.state.ops.room import Client, do, read, refused, room
from tests.proxy.state.world import with_keeper

# The feature that says of an operation that it is there.
_SAYS = {
    KeeperFeature.FILTERED_LIST: KeeperOpCode.FILTERED_LIST,
    KeeperFeature.MULTI_READ: OpCode.MULTI_READ,
    KeeperFeature.CHECK_NOT_EXISTS: KeeperOpCode.CHECK_NOT_EXISTS,
    KeeperFeature.CREATE_IF_NOT_EXISTS: KeeperOpCode.CREATE_IF_NOT_EXISTS,
    KeeperFeature.REMOVE_RECURSIVE: KeeperOpCode.REMOVE_RECURSIVE,
    KeeperFeature.MULTI_WATCHES: OpCode.MULTI_READ,
    KeeperFeature.CHECK_STAT: KeeperOpCode.CHECK_STAT,
    KeeperFeature.PERSISTENT_WATCHES: OpCode.ADD_WATCH,
    KeeperFeature.CREATE_WITH_STATS: OpCode.CREATE2,
    KeeperFeature.TRY_REMOVE: KeeperOpCode.TRY_REMOVE,
    KeeperFeature.LIST_WITH_STAT_AND_DATA: KeeperOpCode.LIST_WITH_STAT_AND_DATA,
    KeeperFeature.GET_CHILDREN_RECURSIVE: KeeperOpCode.LIST_RECURSIVE,
    KeeperFeature.CREATE_TTL: OpCode.CREATE_TTL,
    KeeperFeature.CREATE_CONTAINER: OpCode.CREATE_CONTAINER,
}


def test_the_flags_tell_exactly_what_is_answered() -> None:
    answered = EXTENDED.reads.keys() | EXTENDED.writes.keys()
    expected = {feature for feature, opcode in _SAYS.items() if opcode in answered}
    assert expected | {KeeperFeature.MAX_REQUEST_SIZE} == FEATURES


@pytest.mark.parametrize(
    ("features", "flags"),
    [((), "0000"), (KeeperFeature, "fffe"), ((KeeperFeature.FILTERED_LIST,), "8000"), ((9,), "0040")],
)
def test_the_bitmap(features: tuple[KeeperFeature, ...], flags: str) -> None:
    assert feature_flags(features).hex() == flags


def test_what_is_read() -> None:
    nodes = system_nodes([KeeperFeature.MULTI_READ], 1000, "zone-1")
    assert {path: node.data for path, node in nodes.items()} == {
        "/keeper": b"",
        "/keeper/feature_flags": b"\x40\0",
        "/keeper/api_version": b"3",
        "/keeper/max_request_size": b"1000",
        "/keeper/availability_zone": b"zone-1",
    }
    assert "/keeper/availability_zone" not in system_nodes([], 1000, "")


def _path(path: str) -> bytes:
    return pack_string(path) + b"\0"


@pytest.mark.parametrize("opcode", [OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_ACL, OpCode.GET_CHILDREN2])
def test_they_are_found_and_no_part_of_the_tree(opcode: OpCode) -> None:
    world = room()
    before = read(world, OpCode.GET_CHILDREN2, _path("/"))
    client = Client()
    assert refused(world, opcode, _path("/keeper/feature_flags"), client) is ErrorCode.NO_NODE
    with_keeper(world)
    read(world, opcode, _path("/keeper/feature_flags"), client)
    read(world, opcode, _path("/keeper"), client)
    assert refused(world, opcode, _path("/keeper/other"), client) is ErrorCode.NO_NODE
    assert client.knows_keeper is (opcode == OpCode.GET_DATA)
    assert read(world, OpCode.GET_CHILDREN2, _path("/")) == before
    names = Reader(read(world, OpCode.GET_CHILDREN, _path("/keeper"))).strings()
    assert set(names or ()) == {"feature_flags", "api_version", "max_request_size"}


def test_reading_other_nodes_does_not_tell_a_clickhouse() -> None:
    world = room()
    with_keeper(world)
    client = Client()
    for path, knows in (("/open", False), ("/keeper/max_request_size", False), ("/keeper/api_version", True)):
        read(world, OpCode.GET_DATA, _path(path), client)
        assert client.knows_keeper is knows


def test_a_node_of_the_tree_comes_first() -> None:
    world = room(keeper=False)
    do(world, Create("/keeper"), Create("/keeper/api_version", b"mine"))
    with_keeper(world)
    assert Reader(read(world, OpCode.GET_DATA, _path("/keeper/api_version"))).buffer() == b"mine"
