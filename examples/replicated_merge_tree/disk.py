"""What a replica has on its own disk: it outlives the replica's sessions. Pure.

A part is *pending* from before its multi leaves until the outcome is known, *active* afterwards, *outdated*
once another part covers it or its partition was dropped, and gone when its znode is gone. It is *missing* if
its files have disappeared and its znode is there.
"""

from examples.replicated_merge_tree.parts import Content, Part, PartSet, dropped_range


class Disk:
    """The parts of one replica."""

    def __init__(self) -> None:
        self.active = PartSet()
        self.outdated: dict[Part, float] = {}  # since when, in seconds of the caller's clock
        self.pending: dict[Part, Content] = {}
        self.missing: set[Part] = set()
        self.had: set[Part] = set()  # every part that was ever committed here
        self._contents: dict[Part, Content] = {}
        self._dropped: dict[str, int] = {}

    def content(self, part: Part) -> Content | None:
        """What is in an active or outdated part; None if it is not here."""
        return self._contents.get(part)

    def parts(self) -> set[Part]:
        """All parts whose znodes are there."""
        return {*self._contents, *self.outdated, *self.missing}

    def has_rows_of(self, part: Part) -> bool:
        """Whether an active part holds a block that is or was in `part`."""
        return any(
            part.low <= number <= part.high
            for other in self.active.of(part.partition)
            for number in self._contents[other]
        )

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

    def lose(self, part: Part) -> None:
        """The files of an active part have disappeared."""
        self.active.discard(part)
        del self._contents[part]
        self.missing.add(part)

    def wipe(self) -> None:
        """Everything has disappeared. What is pending is still known, to find out what became of it."""
        self.active = PartSet()
        self.outdated.clear()
        self.missing.clear()
        self._contents.clear()
        self._dropped.clear()

    def give_up(self, part: Part, now: float) -> None:
        """A missing part is not needed: another one covers it, or its partition was dropped."""
        self.missing.discard(part)
        self.outdated[part] = now

    def drop(self, partition: str, high: int, now: float) -> list[Part]:
        """Drop a partition up to a block number; returns the parts whose znodes are to go."""
        self._dropped[partition] = max(high, self._dropped.get(partition, -1))
        dropped = dropped_range(partition, high)
        missing = [part for part in self.missing if dropped.covers(part)]
        for part in [*self.active.remove_inside(dropped), *missing]:
            self.give_up(part, now)
        return [part for part in self.outdated if dropped.covers(part)]

    def removed(self, part: Part) -> None:
        """The znode of a part that is not needed is gone."""
        self.active.discard(part)
        self.missing.discard(part)
        self.outdated.pop(part, None)
        self._contents.pop(part, None)
