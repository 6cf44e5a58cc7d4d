"""All nodes of a subtree, some at a time."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Protocol, TypeVar

from schema.paths import ROOT

# Nodes, and paths, between two yields: 1 ms.
_WALKED = 1024
_SCANNED = 2048
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
    if path not in nodes:
        return
    found = [path]
    most = max(len(nodes) // _WALK_COSTS, _WALKED)
    seen = 0
    for above in found:
        names = list(nodes[above].children or ())
        if path == ROOT or len(found) + len(names) > most:
            break
        for start in range(0, len(names), _WALKED):
            found += [f"{above}/{name}" for name in names[start : start + _WALKED]]
            if len(found) - seen >= _WALKED:
                seen = len(found)
                yield []
    else:
        for start in range(0, len(found), _WALKED):
            yield [(below, nodes[below]) for below in found[start : start + _WALKED]]
        return
    # Much of the tree lies below: to look at all of it is faster.
    prefix = path if path == ROOT else f"{path}/"
    yield [(path, nodes[path])]
    items = iter(nodes.items())
    while batch := list(islice(items, _SCANNED)):
        yield [item for item in batch if item[0].startswith(prefix) and item[0] != path]
