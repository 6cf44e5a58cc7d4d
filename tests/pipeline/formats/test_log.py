"""A log's framing, and errors that travel between processes."""

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats import log
from pipeline.formats.compression import BytesSource
from pipeline.formats.errors import BadFile
from pipeline.formats.log import BadSum

bodies = st.lists(st.binary(min_size=32, max_size=60), max_size=8)


@given(bodies, st.integers(0, 50), st.integers(1, 100))
def test_entries_read_back_whole_and_in_runs(bodies: list[bytes], padding: int, step: int) -> None:
    source = BytesSource(log.pack_header() + b"".join(map(log.pack_entry, bodies)) + bytes(padding))
    found = list(log.entries(source, "f", log.HEADER_SIZE))
    assert [entry.body for entry in found] == bodies
    end = log.end_of(source, log.HEADER_SIZE)
    assert (end.torn, end.padded) == (None, padding >= 12)
    assert end.offset == len(source.buffer) - padding
    bounds = log.splits(source, log.HEADER_SIZE, step, end.offset)
    assert bounds[0] == log.HEADER_SIZE
    assert bounds[-1] == end.offset
    runs = [list(log.entries(source, "f", *run)) for run in pairwise(bounds)]
    assert [entry for run in runs for entry in run] == found


@given(bodies.filter(bool), st.data())
def test_a_log_cut_anywhere_gives_its_first_entries(bodies: list[bytes], data: st.DataObject) -> None:
    whole = log.pack_header() + b"".join(map(log.pack_entry, bodies))
    cut = data.draw(st.integers(log.HEADER_SIZE, len(whole)))
    source = BytesSource(whole[:cut])
    found = [entry.body for entry in log.entries(source, "f", log.HEADER_SIZE)]
    assert found == bodies[: len(found)]
    size = log.HEADER_SIZE + sum(map(log.entry_size, found))
    end = log.end_of(source, log.HEADER_SIZE)
    assert end.offset == size
    # The sum is a long that begins with zeros: a cut within them looks like padding.
    assert end.torn is not None or (cut - size <= 8 and not whole[size:cut].strip(b"\0"))


def test_an_entry_too_short_for_any_transaction() -> None:
    source = BytesSource(log.pack_header() + log.pack_entry(bytes(range(31))))
    with pytest.raises(BadFile, match=r"f, byte 16: an entry of 31 bytes is shorter than"):
        list(log.entries(source, "f", log.HEADER_SIZE))


def test_names() -> None:
    assert log.zxid_of("log.1f4") == 0x1F4
    assert log.zxid_of("log.1f4.gz") is None
    assert log.zxid_of("log.") is None
    # int() takes these, Long.parseLong does not, or no program writes them.
    for number in ("1_0", "0x1", " 1", "+1", "-1", "\u0661", "8000000000000000"):
        assert log.zxid_of(f"log.{number}") is None
    assert log.zxid_of("snapshot.1") is None


def test_an_epoch_begins_with_one() -> None:
    assert log.follows(5, 6)
    assert log.follows(5, (1 << 32) + 1)
    assert log.follows((1 << 32) + 7, (3 << 32) + 1)
    assert not log.follows(5, 5)
    assert not log.follows(5, 7)
    assert not log.follows(5, (1 << 32) + 2)
    assert not log.follows((2 << 32) + 7, (1 << 32) + 1)


def test_errors_travel_between_processes() -> None:
    for error in (BadFile("f", 3, "is bad"), BadSum("f", 3, "is bad")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), "f, byte 3: is bad")
    assert str(BadFile("f", None, "is bad")) == "f: is bad"
