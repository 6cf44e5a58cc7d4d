"""Names in order, a page at a time, and walks through a tree in order. Pure.

A directory may have 100,000 children and a tree a million znodes, and to sort them takes longer than the loop
may be held. So these are generators that yield None wherever their caller may pause; `pacing` drives them.
The tree may change in a pause. A page then shows each name that was there all the time exactly once.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from codec.constants import Perms
from proxy.state.auth.scheme import Identities
from proxy.state.node import Node
from proxy.state.rights import permits
from schema.paths import ROOT, join

# What is looked at and sorted between two pauses, about a millisecond: so many names, or so many characters.
_CHUNK = 2048
_LONG = 1 << 19
_TRIES = 3
#: Characters of names and paths that one answer has; the one with which there are more is its last.
MOST_CHARACTERS = 1 << 18

Name = TypeVar("Name", str, int, tuple[Any, int])


def ordered(
    source: Callable[[], Iterable[Name]], wanted: Callable[[Name], bool] | None = None
) -> Iterator[Name | None]:
    """The names of a collection that may change in the pauses, or the wanted ones, in order, each once.

    `source` gives the collection itself: it is not copied unless it changes too often.
    """
    last = None
    for name in heapq.merge(*(yield from _chunks(source, wanted))):
        if name != last:
            yield name
        last = name


def _chunks(source: Callable[[], Iterable[Name]], wanted: Callable[[Name], bool] | None) -> Any:
    """Generator that pauses; returns the wanted names as sorted lists."""
    for tries in range(_TRIES):
        found: list[list[Name]] = []
        chunk: list[Name] = []
        names = source() if tries < _TRIES - 1 else list(source())
        size = 0
        try:
            for place, name in enumerate(names, 1):
                if wanted is None or wanted(name):
                    chunk.append(name)
                if isinstance(name, str):
                    size += len(name)
                if place % _CHUNK == 0 or size >= _LONG:
                    size = 0
                    if chunk:
                        chunk.sort()
                        found.append(chunk)
                        chunk = []
                    yield None
        except RuntimeError:  # the collection has changed in a pause
            continue
        chunk.sort()
        return [*found, chunk]
    raise AssertionError("a copy has changed")


def first_of(names: Iterable[str]) -> list[str]:
    """The first names, as many as one answer has."""
    found = []
    left = MOST_CHARACTERS
    for name in names:
        if left <= 0:
            break
        found.append(name)
        left -= len(name)
    return found


def may_read(node: Node, identities: Identities) -> bool:
    """Whether the ACL lets them read the node."""
    return permits(node.rights, Perms.READ, identities)


def walk(
    nodes: Mapping[str, Node],
    identities: Identities,
    top: str,
    after: str | None = None,
    hidden: Callable[[str], object] | None = None,
) -> Iterator[str | None]:
    """The paths of a subtree in order, parents first, as far as the ACLs let `identities` list it.

    `after`: begin behind this path, whether or not it is still there. `hidden` is called with each node that
    has children which may not be listed.
    """
    if top not in nodes:
        return
    open_: list[Iterator[str | None]] = []

    def enter(path: str, above: str) -> None:
        node = nodes.get(path)
        if node is None or not node.children:
            return
        if may_read(node, identities):
            behind = join(path, above)
            open_.append(ordered(lambda: node.children or (), lambda child: child > behind))
        elif hidden is not None:
            hidden(path)

    if after is None:
        yield top
        enter(top, "")
    else:
        path = top
        for name in _steps(top, after):
            enter(path, name)
            path = join(path, name)
        enter(path, "")
    while open_:
        below = next(open_[-1], "")
        if below is None:
            yield None
        elif below:
            yield below
            enter(below, "")
        else:
            open_.pop()


def _steps(top: str, path: str) -> list[str]:
    """The names between a node and one below it; none if it is not below it."""
    start = top if top == ROOT else top + "/"
    return path[len(start) :].split("/") if path.startswith(start) and path != start else []
