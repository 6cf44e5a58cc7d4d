"""Entries of a table's log, and of the replicas' queues, as ClickHouse writes them into znodes. Pure."""

from dataclasses import dataclass
from typing import Final, Self

from examples.replicated_merge_tree.parts import Part

GET: Final = "get"
MERGE: Final = "merge"
MUTATE: Final = "mutate"
DROP: Final = "drop"

_FIRST_LINE = "format version: 4"
_INTO = "into"
_TO = "to"


@dataclass(frozen=True, slots=True)
class Entry:
    """What every replica is to do."""

    kind: str
    part: Part  # that the replica has afterwards; of DROP the range
    source: str  # the replica that appended the entry
    identity: str  # of this entry, unlike all others
    sources: tuple[Part, ...] = ()  # that are merged, or the one that is mutated
    block_id: str = ""  # of an insert
    quorum: int = 0  # of an insert: how many replicas must have it, 0 for any

    def encode(self) -> bytes:
        """The znode's data."""
        lines = [
            _FIRST_LINE,
            f"source replica: {self.source}",
            f"log_entry_id: {self.identity}",
            f"block_id: {self.block_id}",
            f"quorum: {self.quorum}",
            self.kind,
            *(source.text for source in self.sources),
        ]
        if self.kind == MERGE:
            lines.append(_INTO)
        if self.kind == MUTATE:
            lines.append(_TO)
        return "\n".join([*lines, self.part.text]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError for anything that `encode` does not write."""
        first, *lines = data.decode().split("\n")
        if first != _FIRST_LINE or len(lines) < 6:
            raise ValueError(f"not an entry of the log: {data!r}")
        source, identity, block_id, quorum = (line.partition(": ")[2] for line in lines[:4])
        kind, *parts = lines[4:]
        names = [Part.parse(part) for part in parts if part not in (_INTO, _TO)]
        return cls(kind, names[-1], source, identity, tuple(names[:-1]), block_id, int(quorum))
