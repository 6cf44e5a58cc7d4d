"""What differs between two states: nodes that were created, deleted, or changed. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from proxy.state.node import Node

CREATED, DELETED, CHANGED = "created", "deleted", "changed"
_FIELDS = ("data", "acl", "owner")


class Difference(NamedTuple):
    """A node that differs."""

    path: str
    change: str
    fields: tuple[str, ...]  # of a changed one: data, acl, owner
    before: Node | None
    after: Node | None


def differences(before: Mapping[str, Node], after: Mapping[str, Node], path: str) -> Iterator[Difference]:
    """The node and those below it that differ in content, by path.

    What the other fields of Stat say (versions, times, zxids) is no difference.
    """
    below = path.rstrip("/") + "/"
    paths = {each for nodes in (before, after) for each in nodes if each == path or each.startswith(below)}
    for each in sorted(paths):
        was, now = before.get(each), after.get(each)
        if was is None:
            yield Difference(each, CREATED, (), None, now)
        elif now is None:
            yield Difference(each, DELETED, (), was, None)
        elif fields := tuple(name for name in _FIELDS if getattr(was, name) != getattr(now, name)):
            yield Difference(each, CHANGED, fields, was, now)
