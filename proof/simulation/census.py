"""How much each part of a server keeps: what grows with time and not with the tree is a leak.

All containers that can be reached from an object through attributes are counted, by the class and the name of
the attribute that holds them. The state itself is not counted: it is compared byte by byte elsewhere. Nor are
containers with a fixed greatest length.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from proxy.state.digest import Digest
from proxy.state.node import FullNode, PackedNode
from proxy.state.tree import Tree

_ROOMS = ("proxy.", "schema.", "codec.")
_CONTAINERS = (dict, list, set, deque)
_NOT_COUNTED = (Digest, FullNode, PackedNode, Tree)


def census(root: object) -> Counter[str]:
    """How many items all containers below an object have, by `Class.attribute`."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        name, found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, _CONTAINERS):
            if not (isinstance(found, deque) and found.maxlen is not None):
                counts[name] += len(found)
            values = [*found.keys(), *found.values()] if isinstance(found, dict) else list(found)
            waiting += [(name, value) for value in values]
        elif isinstance(found, tuple):
            waiting += [(name, value) for value in found]
        elif type(found).__module__.startswith(_ROOMS) and not isinstance(found, _NOT_COUNTED):
            kind = type(found).__name__
            waiting += [(f"{kind}.{attribute}", value) for attribute, value in _attributes(found)]
    return counts


def _attributes(thing: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)
