"""All nodes of a subtree, some at a time."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Protocol, TypeVar

from schema.paths import ROOT

# Nodes between two yields: 1 to 2 ms.
_WALKED = 1024
_SCANNED = 8192
# To find a node by its parent takes as long as to look at so many paths of the tree.
_WALK_COSTS = 8


class Parent(Protocol):
    """A node, as far as the walk cares."""

    children: set[str] | None


Kind = TypeVar("Kind", bound=Parent)


def subtree(nodes: Mapping[str, Kind], path: str) -> Iterator[list[tuple[str, Kind]]]:
    """The node and all below it, in no order, in lists that may be empty; nothing if it is not there.

    `nodes` must not change meanwhile.
    """
    top = nodes.get(path)
    if top is None:
        return
    found = [(path, top)]
    most = len(nodes) // _WALK_COSTS
    if path != ROOT:
        walked = 0
        for above, node in found:
            if node.children:
                found += [(below := f"{above}/{name}", nodes[below]) for name in node.children]
            walked += 1
            if walked % _WALKED == 0:
                if len(found) > max(most, _WALKED):
                    break
                yield []
        else:
            for start in range(0, len(found), _SCANNED):
                yield found[start : start + _SCANNED]
            return
    # Most of the tree lies below: to look at all of it is faster.
    prefix = path if path == ROOT else f"{path}/"
    yield [(path, top)]
    items = iter(nodes.items())
    while some := list(islice(items, _SCANNED)):
        yield [item for item in some if item[0].startswith(prefix) and item[0] != path]
