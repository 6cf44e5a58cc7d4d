"""getAllChildrenNumber: how many nodes lie below one, at any depth (DataTree.getAllChildrenNumber)."""

from codec.constants import Perms
from codec.jute import INT
from codec.packets import decode_path
from proxy.state.acl import demand
from proxy.state.operation import Client, Reading
from proxy.state.ops.reads import find
from proxy.state.tree import Tree
from schema.paths import ROOT


def get_all_children_number(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The number. The READ permission of the node itself is all that is asked for."""
    path = decode_path(frame, position)
    demand(find(reading, path).acl, Perms.READ, client.identities)
    nodes = reading.tree.nodes
    if path == ROOT:
        number = len(nodes) - 1
    elif path == "":
        number = len(nodes)  # ZooKeeper counts by prefix, and so its "/" among what lies below its ""
    else:
        number = _below(reading.tree, path)
    return INT.pack(number)


def _below(tree: Tree, path: str) -> int:
    nodes = tree.nodes
    number = 0
    unread = [path]
    for above in unread:
        children = nodes[above].children
        if children:
            number += len(children)
            unread += [below for name in children if nodes[below := f"{above}/{name}"].children]
    return number
