"""The buckets, in memory, and the invariants of what lies there. Pure.

It sees all hosts at one instant, so it knows at each moment which data a replica has reported as marked.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

INVARIANTS = {
    "deleted-once": "Data are deleted once.",
    "leaked": "Data that no replica uses are deleted in the end, and so are all marks.",
    "lost-node": "A host's own node is there.",
    "marked": "Data are there as long as a replica has marked them.",
    "merged-once": "A part is merged by one replica, unless its data were deleted before.",
    "moved-once": "A part is moved into a bucket by one replica, unless its data were deleted before.",
    "parts": "Every replica ends with the same parts, and with the rows that were inserted and not dropped.",
    "rest": "Once nobody writes, every replica does all that is left to do, and no lock is left.",
    "same-bucket": "A replica marks data of its own bucket only.",
    "tmp-fetch": "What is left of a fetch that died is removed, and the part itself keeps its mark.",
}

Rows = frozenset[str]


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name in INVARIANTS; the message says why."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


class Storage:
    """Objects by the unique id of the part whose data they are, each in the bucket of its writer."""

    def __init__(self, buckets: Mapping[str, int]) -> None:
        """`buckets`: replica -> the number of its bucket."""
        self.written = 0
        self.deleted = 0
        self._buckets = buckets
        self._objects: dict[str, Rows] = {}
        self._where: dict[str, int] = {}  # unique id -> bucket, of deleted data too
        self._made: dict[tuple[str, str, int], str] = {}  # how, part, bucket -> unique id
        self._marks: defaultdict[str, set[str]] = defaultdict(set)

    def write(self, identity: str, rows: Rows, replica: str) -> None:
        """Store a new part's data."""
        self._objects[identity] = rows
        self._where[identity] = self._buckets[replica]
        self.written += 1

    def reaches(self, identity: str, replica: str) -> bool:
        """Whether a replica finds data in its bucket, which ClickHouse asks for the first object."""
        return identity in self._objects and self._where[identity] == self._buckets[replica]

    def read(self, identity: str, replica: str) -> Rows:
        """The data of a part that a replica has marked."""
        if self._where.get(identity) != self._buckets[replica]:
            raise Violation("same-bucket", f"{replica} uses {identity}, which was never in its bucket")
        if identity not in self._objects:
            raise Violation("marked", f"{replica} uses {identity}, whose data are gone")
        return self._objects[identity]

    def delete(self, identity: str, replica: str) -> None:
        """Delete a part's data."""
        if identity not in self._objects:
            how = "again" if identity in self._where else "which were never written"
            raise Violation("deleted-once", f"{replica} deletes {identity} {how}")
        if others := self._marks[identity]:
            raise Violation("marked", f"{replica} deletes {identity}, marked by {sorted(others)}")
        del self._objects[identity]
        self.deleted += 1

    def marked(self, identity: str, replica: str, directory: str = "") -> None:
        """A replica knows that its mark is there. `directory`: see ZeroCopyPaths.mark."""
        self.read(identity, replica)
        self._marks[identity].add(directory or replica)

    def unmarking(self, identity: str, replica: str, directory: str = "") -> None:
        """A replica is about to take its mark away, and uses the data no more."""
        self._marks[identity].discard(directory or replica)

    def made(self, how: str, part: str, identity: str, replica: str) -> None:
        """A replica has `merged` a part, or `moved` it to its bucket. One merge is enough for all buckets."""
        key = (how, part, self._where[identity] if how == "moved" else 0)
        before = self._made.get(key)
        if before is not None and self._marks[before]:
            raise Violation(
                f"{how}-once", f"{replica} has {how} {part}, which {sorted(self._marks[before])} have already"
            )
        self._made[key] = identity

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
