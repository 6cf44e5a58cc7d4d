"""What a replica has on its own disk: it outlives the replica's sessions. Pure.

A part is *pending* from before its multi leaves until the outcome is known, *active* afterwards, *outdated*
once another part covers it or its partition was dropped, and gone when its znode is gone.
"""

from examples.replicated_merge_tree.parts import Content, Part, PartSet, dropped_range


class Disk:
    """The parts of one replica."""

    def __init__(self) -> None:
        self.active = PartSet()
        self.outdated: dict[Part, float] = {}  # since when, in seconds of the caller's clock
        self.pending: dict[Part, Content] = {}
        self.had: set[Part] = set()  # every part that was ever active
        self._contents: dict[Part, Content] = {}
        self._dropped: dict[str, int] = {}

    def content(self, part: Part) -> Content | None:
        """What is in an active or outdated part; None if it is not here."""
        return self._contents.get(part)

    def parts(self) -> set[Part]:
        """All parts whose znodes are there."""
        return set(self._contents)

    def commit(self, part: Part, now: float) -> None:
        """A pending part became one of the table's. Raises Violation if it overlaps another one."""
        content = self.pending.pop(part)
        if part in self._contents:
            return
        self._contents[part] = content
        self.had.add(part)
        if part.high <= self._dropped.get(part.partition, -1) or self.active.covering(part):
            self.outdated[part] = now
            return
        for other in self.active.add(part):
            self.outdated[other] = now

    def forget(self, part: Part) -> None:
        """A pending part was not committed."""
        self.pending.pop(part, None)

    def drop(self, partition: str, high: int, now: float) -> list[Part]:
        """Drop a partition up to a block number; returns the parts whose znodes are to go."""
        self._dropped[partition] = max(high, self._dropped.get(partition, -1))
        dropped = dropped_range(partition, high)
        for part in self.active.remove_inside(dropped):
            self.outdated[part] = now
        return [part for part in self.outdated if dropped.covers(part)]

    def removed(self, part: Part) -> None:
        """An outdated part's znode is gone."""
        self.outdated.pop(part, None)
        self._contents.pop(part, None)
