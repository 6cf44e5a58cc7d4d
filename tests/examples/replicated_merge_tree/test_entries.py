"""Entries of the log."""

import pytest

from examples.replicated_merge_tree.entries import DROP, GET, MERGE, MUTATE, Entry
from examples.replicated_merge_tree.parts import Part, dropped_range

A, B, AB = Part("p", 0, 0, 0), Part("p", 1, 1, 0), Part("p", 0, 1, 1)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(GET, A, "r1", "1-1", block_id="p_token", quorum=2),
        Entry(MERGE, AB, "r1", "1-2", (A, B)),
        Entry(MUTATE, A._replace(mutation=4), "r2", "1-3", (A,)),
        Entry(DROP, dropped_range("p", 9), "r2", "1-4"),
    ],
)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert Entry.decode(entry.encode()) == entry


@pytest.mark.parametrize("data", [b"", b"format version: 3\nx", b"format version: 4\nget"])
def test_what_is_not_an_entry(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        Entry.decode(data)
