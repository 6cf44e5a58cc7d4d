"""The tree: links between nodes, ephemerals by session, and the Stat that clients see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.packets import STAT
from proxy.tree import CONTAINER_OWNER, MAX_TTL, Node, Tree, session_of, ttl_of, ttl_owner, wrap_int
from schema.values import OPEN_ACL


def _node(owner: int = 0, data: bytes | None = b"") -> Node:
    node = Node()
    node.data = data
    node.acl = OPEN_ACL
    node.owner = owner
    node.czxid, node.mzxid, node.pzxid = 1, 2, 3
    node.ctime, node.mtime = 4, 5
    node.version, node.aversion, node.created = 6, 7, 0
    node.mod = node.counter_mod = 1
    node.explicit_czxid = False
    node.children = None
    return node


@given(st.integers())
def test_ints_overflow_as_javas(value: int) -> None:
    wrapped = wrap_int(value)
    assert -(1 << 31) <= wrapped < 1 << 31
    assert (wrapped - value) % (1 << 32) == 0


@pytest.mark.parametrize(
    ("owner", "session"),
    [
        (0, 0),
        (5, 5),
        ((1 << 63) - 1, (1 << 63) - 1),
        (CONTAINER_OWNER, 0),
        (CONTAINER_OWNER + 1, CONTAINER_OWNER + 1),
        (-1, 0),
        (-(1 << 56), 0),
        (-(1 << 56) - 1, -(1 << 56) - 1),
    ],
)
def test_which_session_an_owner_names(owner: int, session: int) -> None:
    """EphemeralType.get: the lowest long is a container, a top byte of 0xff a TTL node."""
    assert session_of(owner) == session


def test_a_stat() -> None:
    tree = Tree()
    parent = _node(data=b"12345")
    parent.created = 9
    tree.attach("/", _node())
    tree.attach("/p", parent)
    tree.attach("/p/a", _node(owner=77))
    tree.attach("/p/b", _node())
    assert STAT.unpack(parent.stat()) == (1, 2, 4, 5, 6, 2 * 9 - 2, 7, 0, 5, 2, 3)
    assert STAT.unpack(tree.nodes["/p/a"].stat())[7] == 77
    assert STAT.unpack(_node(owner=CONTAINER_OWNER, data=None).stat())[7:9] == (0, 0)


def test_a_cversion_overflows() -> None:
    node = _node()
    node.created = (1 << 30) + 5
    assert STAT.unpack(node.stat())[5] == wrap_int(2 * node.created)


_PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/x/y", "/b/x"])


@given(st.lists(st.tuples(st.booleans(), _PATHS, st.integers(0, 2)), max_size=30))
def test_links_and_owners_follow_the_nodes(steps: list[tuple[bool, str, int]]) -> None:
    tree = Tree()
    tree.attach("/", _node())
    plain: dict[str, int] = {"/": 0}
    for enters, path, owner in steps:
        above = path[: path.rindex("/")] or "/"
        if enters and path not in plain and above in plain:
            tree.attach(path, _node(owner))
            plain[path] = owner
        elif not enters and not any(other.startswith(path + "/") for other in plain):
            assert (tree.detach(path) is not None) is (path in plain)
            plain.pop(path, None)
    for path in plain:
        start = path.rstrip("/") + "/"
        children = {
            other[len(start) :]
            for other in plain
            if other != "/" and other.startswith(start) and "/" not in other[len(start) :]
        }
        assert (tree.nodes[path].children or set()) == children
        assert tree.nodes[path].children != set()
    owners = {owner: {path for path in plain if plain[path] == owner} for owner in set(plain.values()) - {0}}
    assert tree.ephemerals == owners
    assert tree.orphans([1]) == set(owners) - {1}


@pytest.mark.parametrize("ttl", [1, 5000, MAX_TTL])
def test_a_ttl_lies_in_the_owner(ttl: int) -> None:
    assert ttl_owner(ttl) & 0xFFFFFFFFFFFFFFFF == 0xFF << 56 | ttl
    assert ttl_of(ttl_owner(ttl)) == ttl
    assert session_of(ttl_owner(ttl)) == 0


def test_other_owners_have_no_ttl() -> None:
    assert [ttl_of(owner) for owner in (0, 5, CONTAINER_OWNER, (1 << 63) - 1)] == [0, 0, 0, 0]


def test_containers_and_ttl_nodes_are_known_while_they_are_there() -> None:
    tree = Tree()
    for path, owner in {"/": 0, "/c": CONTAINER_OWNER, "/t": ttl_owner(5), "/e": 77, "/p": 0}.items():
        tree.attach(path, _node(owner))
    assert tree.mortal == {"/c", "/t"}
    for path in ("/c", "/e", "/p"):
        tree.detach(path)
    assert (tree.mortal, tree.ephemerals) == ({"/t"}, {})


def test_a_child_may_come_before_its_parent() -> None:
    tree = Tree()
    tree.attach("/p/c", _node())
    tree.attach("/p", _node())
    tree.link("/p/c")
    assert tree.nodes["/p"].children == {"c"}
