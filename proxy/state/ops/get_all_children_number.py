"""getAllChildrenNumber: how many nodes are below one, at any depth (DataTree.getAllChildrenNumber)."""

from collections.abc import Mapping

from codec.constants import Perms
from codec.jute import INT
from codec.packets import decode_path
from proxy.state.node import Node
from proxy.state.operation import Client, Reading
from proxy.state.ops.reads import find
from proxy.state.rights import demand
from proxy.state.subtree import WALKED_PER_STEP, subtree
from schema.paths import ROOT


def get_all_children_number(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The number. Only the READ permission of the node itself is checked."""
    path = decode_path(frame, position)
    demand(find(reading, path).rights, Perms.READ, client.identities)
    nodes = reading.tree.nodes
    if path == ROOT:
        number = len(nodes) - 1
    elif path == "":
        number = len(nodes)  # ZooKeeper counts by prefix, so its "/" counts as below its ""
    else:
        number = _below(reading, path)
    return INT.pack(number)


def _below(reading: Reading, path: str) -> int:
    nodes: Mapping[str, Node] = reading.tree.nodes
    if path not in nodes:
        nodes = reading.system
    number = 0
    for some in subtree(nodes, path, reading.pause):
        number += len(some)
        reading.pause.expect(number // WALKED_PER_STEP)
    return number - 1  # the node itself does not count
