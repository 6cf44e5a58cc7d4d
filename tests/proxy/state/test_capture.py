"""The state as pages, and what is no whole state."""

from functools import cache
from random import Random

import pytest

from codec.jute import OPEN_ACL, Acl
from lab.oracle.requests import Create, CreateContainer, CreateTtl, SetAcl, SetData
from proxy.state.capture import load, new_machine, pages
from proxy.state.level import KNOWN, OF_NEW_TREES, UnknownLevel
from proxy.state.machine import CHECKPOINT_EVERY
from proxy.state.node import make_node
from schema.entry import Kind, Request, encode_epoch
from schema.errors import BadValue
from schema.fixed import fixed_nodes
from schema.pages import decode_state, encode_nodes, encode_state, page_header
from tests.proxy.state.world import CLUSTER, World, all_pages, assert_sound, reloaded
from tests.table import one_by_one


@cache
def _world() -> World:
    """Of every kind something, and more than a page."""
    world = World((1, 2, 1 << 62))
    random = Random(1)
    world.do(Create("/d"), CreateContainer("/c"), CreateTtl("/t", ttl=77), Create("/e", None, flags=1))
    world.do(Create("/q", b"1"), Create("/zookeeper/quota/q"))
    world.do(*(Create(f"/zookeeper/quota/q/zookeeper_{name}", b"count=5") for name in ("limits", "stats")))
    for start in range(40):
        world.do(*(Create(f"/d/{start}-{number}", random.randbytes(100)) for number in range(50)))
    world.enter(Request(Kind.EPOCH, 0, 0, (), encode_epoch(CLUSTER, 5 << 32)))
    world.do(SetAcl("/d/0-0", (Acl(1, "ip", "::1"),)), SetData("/d/0-1", "ä".encode()), Create("/q/ä€"))
    return world


def test_what_was_captured_is_loaded() -> None:
    machine = _world().machine
    node_pages, session_pages, state, digest = all_pages(machine)
    assert len(node_pages) > 1
    assert digest == machine.compute_digest()
    shuffled = list(node_pages)
    Random(2).shuffle(shuffled)
    loaded = load(shuffled, session_pages, state, digest)
    assert_sound(loaded)
    counted = "zxid", "entries", "applied", "level", "cluster_id", "undone", "checkpoints", "last_checkpoint"
    for name in counted:
        assert getattr(loaded, name) == getattr(machine, name)
    assert machine.undone
    assert machine.entries > CHECKPOINT_EVERY
    assert loaded.tree.ephemerals == machine.tree.ephemerals
    assert set(loaded.tree.expiring) == set(machine.tree.expiring)
    for path, node in machine.tree.nodes.items():
        assert loaded.tree.nodes[path].children == node.children
        assert (loaded.tree.nodes[path].acl is OPEN_ACL) is (node.acl is OPEN_ACL)
    assert loaded.tree.quotas["/q"].limits == machine.tree.quotas["/q"].limits
    assert all_pages(loaded) == (node_pages, session_pages, state, digest)


def test_paths_are_sorted_and_no_page_overlaps_another() -> None:
    headers = [page_header(page) for page in all_pages(_world().machine)[0]]
    ends = [end for header in headers for end in (header.first, header.last)]
    assert ends == sorted(ends)


def test_a_new_tree_is_zookeepers() -> None:
    machine = new_machine(CLUSTER)
    assert machine.tree.nodes.keys() == fixed_nodes().keys()
    for path, znode in fixed_nodes().items():
        node = machine.tree.nodes[path]
        fields = ("data", "acl", "owner", "czxid", "pzxid", "created", "version", "aversion")
        assert [getattr(node, name) for name in fields] == [getattr(znode, name) for name in fields]
    assert (machine.zxid, machine.entries, machine.level, machine.cluster_id) == (0, 0, OF_NEW_TREES, CLUSTER)
    assert_sound(machine)
    assert all_pages(reloaded(machine)) == all_pages(machine)


def _page(*paths: str) -> bytes:
    return encode_nodes([(path, make_node(b"", OPEN_ACL, *[0] * 9)) for path in sorted(paths)])


@one_by_one(
    ("node_pages", "complaint"),
    [
        ([], "no root"),
        ([_page("/a")], "no root"),
        ([_page("/", "/a/b")], "nodes below /a, but it does not exist"),
        ([_page("/", "/a"), _page("/a")], "/a comes twice"),
        ([_page("/")[:-1]], "page"),
        ([_page("/"), b""], "page"),
    ],
)
def test_what_is_no_whole_tree(node_pages: list[bytes], complaint: str) -> None:
    with pytest.raises(BadValue, match=complaint):
        load(node_pages, [], pages(new_machine(1)).state)


def test_a_page_that_is_missing_is_found_by_the_digest() -> None:
    node_pages, session_pages, state, digest = all_pages(_world().machine)
    load(node_pages, session_pages, state, digest)
    with pytest.raises(BadValue, match=f"{digest:016x}"):
        load(node_pages, [], state, digest)
    leaves = [page for page in node_pages if page_header(page).first.startswith("/d/")]
    with pytest.raises(BadValue, match=f"{digest:016x}"):
        load([page for page in node_pages if page is not leaves[0]], session_pages, state, digest)


def test_a_level_that_is_not_known_is_not_loaded() -> None:
    node_pages, session_pages, state, _ = all_pages(new_machine(1))
    later = encode_state(decode_state(state)._replace(level=max(KNOWN) + 1))
    with pytest.raises(UnknownLevel, match=f"level {max(KNOWN) + 1}"):
        load(node_pages, session_pages, later)
    assert load(node_pages, session_pages, later, known_levels=(max(KNOWN) + 1,)).level == max(KNOWN) + 1
