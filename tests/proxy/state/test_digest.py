"""The digest: ZooKeeper's own formula, kept up to date lazily."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL
from codec.longs import signed, unsigned
from pipeline.formats.compression import opened
from pipeline.formats.snapshot import SnapshotReader, check_seal
from proxy.state.budgets import Budgets
from proxy.state.digest import Digest, node_hash, session_hash, whole
from proxy.state.node import FullNode, Node, PackedNode, make_node
from proxy.state.sessions import Session
from tests.pipeline.trees import SAMPLES
from tests.proxy.state.test_pause import Counting

_FIELDS = ("owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion")


def _sample_nodes(file: str) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    with opened(file) as source:
        reader = SnapshotReader(source, file)
        reader.head()
        last = False
        while not last:
            run = reader.nodes()
            last = run.last
            for path, data, fixed in zip(run.paths, run.data, run.fixed, strict=True):
                nodes[path.decode() or "/"] = make_node(
                    data, OPEN_ACL, *(int(fixed[name]) for name in _FIELDS)
                )
    return nodes


@pytest.mark.parametrize("name", ["zk39-plain/version-2/snapshot.1f3", "zk38-plain"])
def test_it_is_zookeepers_own(name: str) -> None:
    files = [SAMPLES / name] if "/" in name else sorted((SAMPLES / name / "version-2").glob("snapshot.*"))
    checked = 0
    for file in files:
        found = check_seal(str(file)).digest
        if found is None or found[0] != int(file.suffix[1:], 16):
            continue  # written during writes
        nodes = _sample_nodes(str(file))
        assert len(nodes) > 100
        assert signed(whole(nodes, {})) == found[1]
        checked += 1
    assert checked


_NODES = st.builds(
    FullNode,
    st.one_of(st.none(), st.binary(max_size=5)),
    st.just(OPEN_ACL),
    *[st.integers(-(1 << 63), (1 << 63) - 1)] * 6,
    *[st.integers(-(1 << 31), (1 << 31) - 1)] * 3,
)


@given(_NODES, st.sampled_from(["/", "/a", "/ä/\ufffd"]), st.integers(0, 8))
def test_every_field_counts(node: FullNode, path: str, place: int) -> None:
    before = node_hash(path, node)
    field = _FIELDS[place]
    setattr(node, field, getattr(node, field) ^ 1)
    assert node_hash(path, node) != before
    setattr(node, field, getattr(node, field) ^ 1)
    assert node_hash(path, node) == before
    assert node_hash(path + "x", node) != before
    node.data = (node.data or b"") + b"x"
    assert node_hash(path, node) != before
    assert node_hash("/zookeeper/x", node) == 0


def test_every_field_of_a_session_counts() -> None:
    fields = [5, 4000, b"0123456789abcdef", "home"]
    before = session_hash(Session(*fields))  # type: ignore[arg-type]
    for place, other in enumerate([6, 4001, b"0123456789abcdeg", "homf"]):
        changed = [*fields[:place], other, *fields[place + 1 :]]
        assert session_hash(Session(*changed)) != before  # type: ignore[arg-type]


def test_large_data_are_hashed_once_with_pauses() -> None:
    """36 kB that set 400 nodes of 1 MB, and failed, took every proxy 0.8 s, each time they were sent."""
    nodes: dict[str, Node] = {
        f"/{number}": make_node(bytes(1 << 20), OPEN_ACL, *[0] * 9) for number in range(6)
    }
    kept = nodes["/5"] = FullNode(bytes(1 << 20), OPEN_ACL, *[0] * 9)
    digest, pause = Digest(Budgets()), Counting(512)
    digest.reset(whole(nodes, {}))
    calls = []

    def change(make: Callable[[FullNode | PackedNode], Node | None]) -> None:
        for path, node in list(nodes.items()):
            digest.touch(path, node, pause)
            changed = make(node)
            if changed is None:
                del nodes[path]
            else:
                nodes[path] = changed
        assert digest.settle(nodes, pause) == unsigned(whole(nodes, {}))
        calls.append(pause.calls)

    def stamped(node: Node) -> Node:
        kept.aversion += node is kept
        return node

    change(lambda node: node)
    change(stamped)
    change(lambda node: make_node(bytes(1 << 20), OPEN_ACL, *[1] * 9))
    change(lambda node: make_node(b"short", OPEN_ACL, *[1] * 9))
    change(lambda node: make_node(bytes(1 << 20), OPEN_ACL, *[2] * 9))
    change(lambda node: None)
    assert calls == [3, 3, 6, 6, 9, 9]
