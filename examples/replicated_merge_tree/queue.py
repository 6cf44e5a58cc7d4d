"""A replica's queue: entries copied from the log and not done yet, and what the replica will have. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from examples.replicated_merge_tree.entries import DROP, Entry
from examples.replicated_merge_tree.parts import Part, PartSet


class Queued(NamedTuple):
    """An entry in the queue."""

    node: str  # its znode's name
    entry: Entry


class Queue:
    """The entries in their order, and the parts that the replica has once all of them are done."""

    def __init__(self, active: Iterable[Part] = (), queued: Iterable[Queued] = ()) -> None:
        """`active`: the parts that the replica has."""
        self.future = PartSet(active)
        self._queued: dict[str, Queued] = {}
        for each in queued:
            self.add(each)

    def __len__(self) -> int:
        return len(self._queued)

    def __iter__(self) -> Iterator[Queued]:
        return iter(list(self._queued.values()))

    def holds(self, queued: Queued) -> bool:
        """Whether this very entry is in the queue: a replica that is made anew uses names of nodes again."""
        return self._queued.get(queued.node) == queued

    def add(self, queued: Queued) -> None:
        """Append an entry. Raises Violation if its part overlaps one that the replica will have."""
        self._queued[queued.node] = queued
        entry = queued.entry
        if entry.kind == DROP:
            self.future.remove_inside(entry.part)
        else:
            self.future.add(entry.part)

    def got(self, part: Part) -> None:
        """The replica has got a part, perhaps a larger one than it had to. Raises what `add` raises."""
        if not any(each.entry.kind == DROP and each.entry.part.covers(part) for each in self):
            self.future.add(part)

    def done(self, node: str) -> None:
        """Take an entry out."""
        self._queued.pop(node, None)

    def obsolete_by(self, dropped: Queued) -> list[Queued]:
        """The entries before a DROP whose parts it would delete at once: nobody needs to do them."""
        found = []
        for queued in self:
            if queued.node == dropped.node:
                break
            if queued.entry.kind != DROP and dropped.entry.part.covers(queued.entry.part):
                found.append(queued)
        return found
