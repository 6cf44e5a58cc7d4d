"""The digest: ZooKeeper's own formula, kept up to date lazily."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL
from codec.longs import signed
from pipeline.formats.compression import opened
from pipeline.formats.snapshot import SnapshotReader, check_seal
from proxy.state.budgets import Budgets
from proxy.state.digest import Digest, node_hash, session_hash, whole
from proxy.state.node import FullNode, Node, make_node
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


def test_very_large_nodes_are_hashed_with_pauses() -> None:
    """A request of a few bytes may touch very many of them."""
    nodes = {f"/{number}": make_node(bytes(1 << 20), OPEN_ACL, *[0] * 9) for number in range(8)}
    for each in nodes.values():
        assert each.size == 1 << 20
    digest, pause = Digest(Budgets()), Counting(512)
    for path, each in nodes.items():
        digest.touch(path, each, pause)
    assert pause.calls == 4
    digest.settle(nodes, pause)
    assert pause.calls == 8
