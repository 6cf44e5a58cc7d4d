"""Hypothesis strategies derived from the oracle's records: values and bytes of any, good and broken."""

from functools import partial
from typing import Any

from hypothesis import strategies as st

from codec.jute import INT
from lab.oracle import records, wire
from lab.oracle.records import Record, Type
from lab.oracle.requests import OPEN

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)
BUFFERS = st.binary(max_size=40)
_TEXT = st.one_of(st.none(), TEXTS)

_VALUES: dict[Type, st.SearchStrategy[Any]] = {
    records.INT: INTS,
    records.LONG: LONGS,
    records.BOOLEAN: st.booleans(),
    records.BYTE: st.integers(0, 255),
    records.UNSIGNED: st.integers(0, 2**32 - 1),
    records.BUFFER: st.one_of(st.none(), BUFFERS),
    records.TEXT: _TEXT,
    records.ACLS: st.one_of(st.just(OPEN), st.none(), st.lists(st.tuples(INTS, _TEXT, _TEXT), max_size=3)),
    records.STAT: st.tuples(*(LONGS if one == "q" else INTS for one in wire.STAT.format[1:])),
    records.MAY_BE_MISSING: st.one_of(st.none(), st.booleans()),
}


def packets(record: Record) -> st.SearchStrategy[bytes]:
    """The bytes of a record, whole."""
    values = st.fixed_dictionaries({name: _VALUES[kind] for name, kind in record.items()})
    return values.map(partial(records.write, record))


@st.composite
def broken_packets(draw: st.DrawFn, record: Record) -> bytes:
    """The bytes of a record that were cut, lengthened, or had some of their bytes or lengths replaced."""
    data = bytearray(draw(packets(record)))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(data)))
        odd_length = st.sampled_from([-(2**31), -2, -1, 0, 1, 2**31 - 1]).map(INT.pack)
        patch = draw(st.one_of(st.binary(min_size=1, max_size=3), odd_length))
        data[position : position + len(patch)] = patch
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def any_packets(record: Record) -> st.SearchStrategy[bytes]:
    """The bytes of a record, whole or broken, or any."""
    return st.one_of(packets(record), broken_packets(record), st.binary(max_size=60))
