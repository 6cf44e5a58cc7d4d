"""All nodes of a subtree, some at a time. `nodes` must not change meanwhile."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from proxy.state.node import Node
from proxy.state.pause import Pause
from schema.paths import ROOT

# So many nodes, and paths, are visited in about the time of one step.
WALKED_PER_STEP = 2
_SCANNED_PER_STEP = 4
# To find a node by its parent takes as long as to compare so many paths of the tree.
WALK_COSTS = 8


def subtree(nodes: Mapping[str, Node], path: str, pause: Pause) -> Iterator[list[tuple[str, Node]]]:
    """The node and all nodes below it, in lists without order; no list if the node does not exist."""
    walked = walk(nodes, path, pause)
    if walked is None:
        yield from scan(nodes, path, pause)
    else:
        for paths in walked:
            yield [(below, nodes[below]) for below in paths]


def walk(nodes: Mapping[str, Node], path: str, pause: Pause) -> Iterator[list[str]] | None:
    """The paths of the node and of all nodes below it, in lists without order, parents first.

    None if much of the tree is below the node: `scan` is faster then. May raise TooLong.
    """
    if path not in nodes:
        return iter(())
    if path == ROOT:
        return None
    per_list = WALKED_PER_STEP * pause.every
    most = max(len(nodes) // WALK_COSTS, per_list)
    found = [path]
    done = 0
    while done < len(found):
        pause.expect(len(found) // WALKED_PER_STEP)
        some = found[done : done + per_list]
        pause.spend(len(some) // WALKED_PER_STEP)
        for above in some:
            children = nodes[above].children
            if children is not None:
                if len(found) + len(children) > most:
                    return None
                found += pause.each(children)
        done += len(some)
    return pause.batches(found, WALKED_PER_STEP)


def scan(nodes: Mapping[str, Node], path: str, pause: Pause) -> Iterator[list[tuple[str, Node]]]:
    """The node and all nodes below it, in lists without order. It must exist. May raise TooLong."""
    pause.expect(len(nodes) // _SCANNED_PER_STEP)
    prefix = path if path == ROOT else f"{path}/"
    yield [(path, nodes[path])]
    for items in pause.batches(nodes.items(), _SCANNED_PER_STEP):
        yield [item for item in items if item[0].startswith(prefix) and item[0] != path]


def below(
    nodes: Mapping[str, Node], path: str, is_end: Callable[[str], bool], without: Container[str] = ()
) -> Iterator[str]:
    """The paths below a node, one by one: none below an end, and none of `without` nor below it."""
    waiting: list[Iterable[str]] = [nodes[path].children or ()]
    while waiting:
        for found in waiting.pop():
            if found in without:
                continue
            yield found
            children = nodes[found].children
            if children is not None and not is_end(found):
                waiting.append(children)
