"""All nodes of a subtree, some at a time."""

from collections.abc import Iterator, Mapping

from proxy.state.node import Node
from proxy.state.pause import Pause
from schema.paths import ROOT

# So many nodes, and paths, are visited in about the time of one step.
WALKED_PER_STEP = 2
_SCANNED_PER_STEP = 4
# To find a node by its parent takes as long as to compare so many paths of the tree.
_WALK_COSTS = 8


def subtree(nodes: Mapping[str, Node], path: str, pause: Pause) -> Iterator[list[tuple[str, Node]]]:
    """The node and all nodes below it, in lists without order; no list if the node does not exist.

    `nodes` must not change meanwhile.
    """
    if path not in nodes:
        return
    found = [path]
    most = max(len(nodes) // _WALK_COSTS, WALKED_PER_STEP * pause.every)
    for above in found:
        children = nodes[above].children or ()
        if path == ROOT or len(found) + len(children) > most:
            break
        found += pause.each(children)
    else:
        for batch in pause.batches(found, WALKED_PER_STEP):
            yield [(below, nodes[below]) for below in batch]
        return
    # Much of the tree is below the node: to search all paths is faster.
    prefix = path if path == ROOT else f"{path}/"
    yield [(path, nodes[path])]
    for items in pause.batches(nodes.items(), _SCANNED_PER_STEP):
        yield [item for item in items if item[0].startswith(prefix) and item[0] != path]
