"""Counts by key, of any table: collected by part, put into buckets by key, added, and the largest kept.

A list (`List`) has keys of one or two texts and one to three numbers a key; the first number orders it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.etcd.paths import by_bucket

_SCHEMA = pa.schema(
    [
        ("list", pa.string()),
        ("key", pa.string()),
        *((name, pa.int64()) for name in ("first", "second", "third", "most")),
    ]
)
_WAITING = 100_000  # keys of a part that are sent on together
_JOINS = "\0"  # separates two texts of a key

Numbers = tuple[int, int, int, int]  # three are added; of the fourth the largest is kept
Tops = dict[str, list[tuple[str, Numbers]]]


class Tally:
    """Counts of one part."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._counts: dict[tuple[str, str], list[int]] = {}

    def add(
        self, name: str, key: str, first: int = 0, second: int = 0, third: int = 0, most: int = 0
    ) -> None:
        """Count something under a key of the list `name`."""
        found = self._counts.get((name, key))
        if found is None:
            self._counts[name, key] = [first, second, third, most]
            return
        found[0] += first
        found[1] += second
        found[2] += third
        found[3] = max(found[3], most)

    def full(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The counts, if they have become too many for the memory."""
        if len(self._counts) >= _WAITING:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All counts that remain."""
        if self._counts:
            names, keys = zip(*self._counts, strict=True)
            numbers = zip(*self._counts.values(), strict=True)
            arrays = [
                pa.array(column, field.type)
                for column, field in zip((names, keys, *numbers), _SCHEMA, strict=True)
            ]
            self._counts = {}
            yield from by_bucket(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA), "key", self._buckets)


@dataclass(frozen=True)
class Largest:
    """Adds the counts of a bucket, and keeps the keys with the largest numbers of each list."""

    most: Mapping[str, int]  # keys to keep of each list

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Tops:
        """The keys to keep of each list, the largest first."""
        table = pa.Table.from_batches(batches, _SCHEMA)
        added = table.group_by(["list", "key"]).aggregate(
            [("first", "sum"), ("second", "sum"), ("third", "sum"), ("most", "max")]
        )
        names = ("list", "key", "first_sum", "second_sum", "third_sum", "most_max")
        found: Tops = {}
        for name, key, *numbers in zip(*(added.column(column).to_pylist() for column in names), strict=True):
            found.setdefault(name, []).append((key, tuple(numbers)))
        return {name: self._top(name, rows) for name, rows in found.items()}

    def merged(self, parts: Sequence[Tops]) -> Tops:
        """The same for all buckets together, none of which share keys."""
        return {
            name: self._top(name, [row for part in parts for row in part.get(name, ())]) for name in self.most
        }

    def _top(self, name: str, rows: list[tuple[str, Numbers]]) -> list[tuple[str, Numbers]]:
        return nsmallest(self.most[name], rows, key=_order)


class List(NamedTuple):
    """A list's name in a report, and its columns."""

    name: str
    keys: Sequence[str]
    numbers: Sequence[str]

    def rows(self, tops: Tops) -> list[dict[str, Any]]:
        """The rows in a report's form."""
        return [
            dict(zip(self.keys, key.split(_JOINS, len(self.keys) - 1), strict=True))
            | dict(zip(self.numbers, numbers, strict=False))
            for key, numbers in tops[self.name]
        ]


def key_of(*texts: str) -> str:
    """A key of several texts. A NUL of theirs, which only a damaged path has, is shown as two characters."""
    return _JOINS.join(text.replace(_JOINS, "\\0") for text in texts)


def _order(row: tuple[str, Numbers]) -> tuple[int, str]:
    return -row[1][0], row[0]
