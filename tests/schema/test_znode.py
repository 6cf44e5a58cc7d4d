"""Znodes: fields, the kinds that ephemeralOwner encodes, the Stat that clients see, the fixed nodes."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL, Acl
from schema.fixed import fixed_nodes
from schema.paths import SPECIAL_PATHS, parent_of
from schema.znode import (
    CONTAINER_OWNER,
    MAX_TTL,
    MIN_TTL_OWNER,
    Znode,
    kind_of,
    pack_stat,
    session_of,
    ttl_of,
    ttl_owner,
    wrap_int,
)
from tests.schema.strategies import INTS, LONGS, ZNODES, fields
from tests.table import one_by_one

_STAT = struct.Struct(">qqqqiiiqiiq")


@one_by_one(
    ("owner", "session", "ttl", "kind"),
    [
        (0, 0, 0, "persistent"),
        (5, 5, 0, "ephemeral"),
        (-5, 0, (1 << 40) - 5, "ttl"),
        ((1 << 63) - 1, (1 << 63) - 1, 0, "ephemeral"),
        (CONTAINER_OWNER, 0, 0, "container"),
        (CONTAINER_OWNER + 1, CONTAINER_OWNER + 1, 0, "ephemeral"),
        (-(1 << 56) - 1, -(1 << 56) - 1, 0, "ephemeral"),
        (MIN_TTL_OWNER, 0, 0, "ttl"),
        (ttl_owner(1), 0, 1, "ttl"),
        (ttl_owner(MAX_TTL), 0, MAX_TTL, "ttl"),
    ],
)
def test_the_kinds_of_owner(owner: int, session: int, ttl: int, kind: str) -> None:
    assert (session_of(owner), ttl_of(owner), kind_of(owner)) == (session, ttl, kind)


@given(st.integers(min_value=-(1 << 40), max_value=1 << 40))
def test_ints_wrap_as_in_java(value: int) -> None:
    assert wrap_int(value) == struct.unpack(">i", (value & 0xFFFFFFFF).to_bytes(4, "big"))[0]


@given(ZNODES, INTS.filter(lambda count: count >= 0))
def test_the_stat_of_any_znode(node: Znode, child_count: int) -> None:
    stat = _STAT.unpack(pack_stat(node, child_count))
    assert stat == (
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        wrap_int(2 * node.created - child_count),
        node.aversion,
        session_of(node.owner),
        len(node.data or b""),
        child_count,
        node.pzxid,
    )


@given(LONGS, st.integers(min_value=1, max_value=MAX_TTL))
def test_clients_see_an_owner_only_if_it_is_a_session(owner: int, ttl: int) -> None:
    assert session_of(owner) in (0, owner)
    assert not (session_of(owner) and ttl_of(owner))
    assert (ttl_of(ttl_owner(ttl)), session_of(ttl_owner(ttl))) == (ttl, 0)


def test_they_are_the_special_paths_parents_first() -> None:
    nodes = fixed_nodes()
    assert set(nodes) == SPECIAL_PATHS
    seen = {"/"}
    for path in nodes:
        assert parent_of(path) in seen
        seen.add(path)


def test_all_fields_are_zero_but_the_config_nodes_acl() -> None:
    others = fixed_nodes()
    for path, node in fixed_nodes().items():
        assert node is not others[path]  # no reader gets another's
        expected: dict[str, object] = {**dict.fromkeys(fields(node), 0), "data": b"", "acl": OPEN_ACL}
        if path == "/zookeeper/config":
            expected |= {"acl": (Acl(1, "world", "anyone"),), "aversion": -1}
        assert fields(node) == expected, path
