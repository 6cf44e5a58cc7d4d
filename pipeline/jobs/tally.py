"""Counts by key, of any table: collected part by part, dealt out by key, added up, and the largest kept.

A list (`List`) has keys of one or two texts and one to three numbers a key; the first number orders it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.running.buckets import dealt

_SCHEMA = pa.schema(
    [
        ("list", pa.string()),
        ("key", pa.string()),
        *((name, pa.int64()) for name in ("first", "second", "third", "most")),
    ]
)
_WAITING = 100_000  # keys of a part that are dealt out together
_JOINS = "\0"  # two texts of a key; no path holds it

Numbers = tuple[int, int, int, int]  # three that add up, one of which the largest counts
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
        """What has to leave memory."""
        if len(self._counts) >= _WAITING:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All that is still here."""
        if self._counts:
            names, keys = zip(*self._counts, strict=True)
            numbers = zip(*self._counts.values(), strict=True)
            arrays = [
                pa.array(column, field.type)
                for column, field in zip((names, keys, *numbers), _SCHEMA, strict=True)
            ]
            self._counts = {}
            yield from dealt(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA), "key", self._buckets)


@dataclass(frozen=True)
class Largest:
    """Adds up what a bucket holds, and keeps the keys with the largest numbers of each list."""

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
        """The same of all buckets, each of which has keys of its own."""
        return {
            name: self._top(name, [row for part in parts for row in part.get(name, ())]) for name in self.most
        }

    def _top(self, name: str, rows: list[tuple[str, Numbers]]) -> list[tuple[str, Numbers]]:
        return nsmallest(self.most[name], rows, key=_order)


class List(NamedTuple):
    """What a list is called in a report, and what its columns are."""

    name: str
    keys: Sequence[str]
    numbers: Sequence[str]

    def rows(self, tops: Tops) -> list[dict[str, Any]]:
        """As a report has them."""
        return [
            dict(zip(self.keys, key.split(_JOINS), strict=True))
            | dict(zip(self.numbers, numbers, strict=False))
            for key, numbers in tops[self.name]
        ]


def key_of(*texts: str) -> str:
    """A key of several texts."""
    return _JOINS.join(texts)


def _order(row: tuple[str, Numbers]) -> tuple[int, str]:
    return -row[1][0], row[0]
