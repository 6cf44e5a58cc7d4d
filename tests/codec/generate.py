"""Hypothesis strategies derived from the declarations: values and bytes of any record, good and broken."""

from collections.abc import Mapping
from typing import Any

import construct
from construct import Construct
from hypothesis import strategies as st

from codec.constants import OpCode
from codec.jute import INT
from lab import records

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)
BUFFERS = st.binary(max_size=40)


def values(record: Construct) -> st.SearchStrategy[Any]:
    """Values that `records.encode` takes for a record and `records.decode` gives back."""
    if record is records.MultiOperationRecord:
        return _multis()
    if isinstance(record, construct.Struct):
        fields = {one.name: values(one.subcon) for one in record.subcons}
        # In the order of the declaration, which fixed_dictionaries does not keep.
        return st.fixed_dictionaries(fields).map(lambda drawn: {name: drawn[name] for name in fields})
    if isinstance(record, records.Vector):
        if record.subcon is records.ACL:
            open_acl = {"perms": 31, "id": {"scheme": "world", "id": "anyone"}}
            return st.one_of(st.just([open_acl]), st.none(), st.lists(values(record.subcon), max_size=3))
        return st.one_of(st.none(), st.lists(values(record.subcon), max_size=3))
    if isinstance(record, records.IfPresent):
        return st.one_of(st.none(), st.booleans())
    return {
        records.int_: INTS,
        records.long: LONGS,
        records.boolean: st.booleans(),
        records.byte: st.integers(0, 255),
        records.unsigned: st.integers(0, 2**32 - 1),
        records.buffer: st.one_of(st.none(), BUFFERS),
        records.ustring: st.one_of(st.none(), TEXTS),
    }[record]


def _multis() -> st.SearchStrategy[Any]:
    element = st.sampled_from(sorted(MULTI_REQUEST_BODIES)).flatmap(
        lambda kind: st.fixed_dictionaries(
            {
                "header": st.fixed_dictionaries(
                    {"type": st.just(int(kind)), "done": st.just(False), "err": INTS}
                ),
                "body": values(MULTI_REQUEST_BODIES[kind]),
            }
        )
    )
    end = {"header": {"type": -1, "done": True, "err": -1}, "body": None}
    return st.lists(element, max_size=4).map(lambda elements: {"operations": [*elements, end]})


MULTI_REQUEST_BODIES: Mapping[OpCode, Construct] = {
    OpCode.CREATE: records.CreateRequest,
    OpCode.CREATE_TTL: records.CreateTTLRequest,
    OpCode.DELETE: records.DeleteRequest,
    OpCode.SET_DATA: records.SetDataRequest,
    OpCode.CHECK: records.CheckVersionRequest,
    OpCode.GET_DATA: records.GetDataRequest,
}


def packets(record: Construct) -> st.SearchStrategy[bytes]:
    """The bytes of a record, whole."""
    return values(record).map(lambda value: records.encode(record, value))


@st.composite
def broken_packets(draw: st.DrawFn, record: Construct) -> bytes:
    """The bytes of a record that were cut, lengthened, or had some of their bytes or lengths replaced."""
    data = bytearray(draw(packets(record)))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(data)))
        odd_length = st.sampled_from([-(2**31), -2, -1, 0, 1, 2**31 - 1]).map(INT.pack)
        patch = draw(st.one_of(st.binary(min_size=1, max_size=3), odd_length))
        data[position : position + len(patch)] = patch
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def plain(value: Any) -> Any:
    """What `records.decode` returned as dicts and lists, without construct's own keys."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if key != "_io"}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value
