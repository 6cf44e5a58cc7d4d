"""The shared storage, in memory, and the invariants of what lies there. Pure.

It sees all hosts at one instant, so it knows at each moment which data a replica has reported as marked.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from examples.invariants import Violation

INVARIANTS = {
    "deleted-once": "Data are deleted once.",
    "leaked": "Data that no replica uses are deleted in the end, and so are all marks and locks.",
    "marked": "Data are there as long as a replica has marked them.",
    "merged-once": "A part is merged by one replica, unless the lock of the first one was lost.",
    "parts": "Every replica ends with the same parts, and with the rows that were inserted and not dropped.",
    "rest": "Once nobody writes, every replica does all that is left to do.",
}

Rows = frozenset[str]


class Bucket:
    """Objects by the unique id of the part whose data they are."""

    def __init__(self) -> None:
        self.written = 0
        self.deleted = 0
        self._objects: dict[str, Rows] = {}
        self._gone: set[str] = set()
        self._merged: dict[str, str] = {}  # part -> unique id
        self._marks: defaultdict[str, set[str]] = defaultdict(set)

    def write(self, identity: str, rows: Rows) -> None:
        """Store a new part's data."""
        self._objects[identity] = rows
        self.written += 1

    def read(self, identity: str, replica: str) -> Rows:
        """The data of a part that a replica has marked."""
        if identity not in self._objects:
            raise Violation("marked", f"{replica} uses {identity}, whose data are gone")
        return self._objects[identity]

    def delete(self, identity: str, replica: str) -> None:
        """Delete a part's data."""
        if identity not in self._objects:
            how = "again" if identity in self._gone else "which were never written"
            raise Violation("deleted-once", f"{replica} deletes {identity} {how}")
        if others := self._marks[identity]:
            raise Violation("marked", f"{replica} deletes {identity}, marked by {sorted(others)}")
        del self._objects[identity]
        self._gone.add(identity)
        self.deleted += 1

    def marked(self, identity: str, replica: str) -> None:
        """A replica knows that its mark is there."""
        if identity not in self._objects:
            raise Violation("marked", f"{replica} has marked {identity}, whose data are gone")
        self._marks[identity].add(replica)

    def unmarking(self, identity: str, replica: str) -> None:
        """A replica is about to take its mark away, and uses the data no more."""
        self._marks[identity].discard(replica)

    def merged(self, part: str, identity: str, replica: str) -> None:
        """A replica has made a part by a merge."""
        before = self._merged.get(part)
        if before is not None and self._marks[before]:
            raise Violation(
                "merged-once", f"{replica} merges {part}, which {sorted(self._marks[before])} have already"
            )
        self._merged[part] = identity

    def at_end(
        self,
        parts: Mapping[str, Mapping[str, str]],
        marks: Mapping[str, Collection[str]],
        left: Collection[str],
        expected: Mapping[str, Rows],
    ) -> None:
        """All is done.

        `parts`: replica -> part -> unique id; `marks`: unique id -> replicas, in ZooKeeper; `left`: paths of
        locks and the like that are still there; `expected`: part -> rows.
        """
        for replica, theirs in parts.items():
            if theirs.keys() != expected.keys():
                raise Violation("parts", f"{replica} has {sorted(theirs)}, not {sorted(expected)}")
            for part, identity in theirs.items():
                if self.read(identity, replica) != expected[part]:
                    raise Violation("parts", f"{replica}: {part} has other rows than were inserted")
                if replica not in marks.get(identity, ()):
                    raise Violation("marked", f"{replica} uses {identity} of {part} without a mark")
        used = {identity for theirs in parts.values() for identity in theirs.values()}
        for what, found in (
            ("data", self._objects.keys() - used),
            ("marks", marks.keys() - used),
            ("nodes", left),
        ):
            if found:
                raise Violation("leaked", f"{what} that no replica uses: {sorted(found)}")
        for identity, replicas in marks.items():
            if strangers := sorted(
                set(replicas) - {r for r, theirs in parts.items() if identity in theirs.values()}
            ):
                raise Violation("leaked", f"{identity} has marks of {strangers}, which do not use it")
