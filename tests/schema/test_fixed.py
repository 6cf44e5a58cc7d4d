"""The nodes that every ZooKeeper has from the start."""

from codec.jute import Acl
from schema.fixed import fixed_nodes
from schema.paths import SPECIAL_PATHS, parent_of
from schema.znode import OPEN_ACL
from tests.schema.strategies import fields


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
        assert node is not others[path]  # nobody gets another one's
        expected: dict[str, object] = {**dict.fromkeys(fields(node), 0), "data": b"", "acl": OPEN_ACL}
        if path == "/zookeeper/config":
            expected |= {"acl": (Acl(1, "world", "anyone"),), "aversion": -1}
        assert fields(node) == expected, path
