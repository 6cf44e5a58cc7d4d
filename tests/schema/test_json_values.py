"""JSON values: readable, and refused if damaged or of another version."""

import json
import re
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.follow.finishing import Asked
from pipeline.follow.target import Origin, Position, encode_position
from schema import json_values
from schema.budgets import BudgetsValue
from schema.errors import BadValue
from schema.followed import Lag, Sign, encode_lag, encode_sign
from schema.json_values import boolean, number, pack_json, text, unpack_json
from schema.pages import StateValue, encode_state
from schema.record import (
    Home,
    PeerPort,
    ProxyValue,
    Seal,
    SnapshotRef,
    TreeRecord,
    encode_proxy,
    encode_record,
)
from tests.schema.damage import assert_all_damage_is_refused
from tests.schema.strategies import TEXTS
from tests.table import one_by_one

_MEMBERS = st.dictionaries(
    TEXTS.filter(lambda name: name not in ("schema", "crc")),
    st.none() | st.booleans() | st.integers() | TEXTS | st.lists(st.integers(), max_size=3),
    max_size=4,
)


@given(_MEMBERS)
def test_members_come_back(members: dict[str, object]) -> None:
    found = unpack_json(pack_json(members), "it")
    assert {name: found[name] for name in members} == members


def test_a_value_byte_for_byte() -> None:
    line = b'{"schema":2,"name":"x","numbers":[1,2]'
    assert pack_json({"name": "x", "numbers": (1, 2)}) == line + b',"crc":"%08x"}' % crc32(line)
    assert json.loads(pack_json({}))["schema"] == 2


@given(_MEMBERS)
def test_all_damage_is_refused(members: dict[str, object]) -> None:
    assert_all_damage_is_refused(lambda value: unpack_json(value, "it"), pack_json(members))


@one_by_one(
    ("value", "message"),
    [
        (b"", "it is not JSON"),
        (b"no json", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[2]", "it is not a JSON object"),
        (b"2", "it is not a JSON object"),
        (b"{}", "schema version None"),
        (b'{"schema":3}', "schema version 3; this release reads 2"),
        (b'{"schema":"2"}', "schema version '2'"),
        (b'{"schema":2}', "it is damaged"),
        (b'{"version":2}', "schema version None"),
    ],
)
def test_other_values_are_refused(value: bytes, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        unpack_json(value, "it")


def test_members_have_their_types() -> None:
    assert (number(3), boolean(True), text("x")) == (3, True, "x")
    for check, bad in ((number, True), (number, 1.0), (number, "1"), (boolean, 1), (text, 1), (text, None)):
        with pytest.raises(ValueError, match=repr(bad)):
            check(bad)


_SNAPSHOT = SnapshotRef("0-a", 0, "a", 1, 1, 1, 1, 1, 1, 1)
#: By the heading of README.md that describes it: a value with all members that it can have.
_VALUES = {
    "The record": encode_record(TreeRecord(False, 1, 1, _SNAPSHOT, _SNAPSHOT, Seal("", "", 1, 1))),
    "The position of a tree that follows": encode_position(
        Position("", 1, 1, "", finished=True, origin=Origin(1, "", 1, 1), source_zxid=1)
    ),
    "A request for the cut-over": pack_json(
        Asked(1, keep_sessions=True, answered=True, waits=True)._asdict()
    ),
    "How far a tree is behind its source": encode_lag(Lag(1, 1, 1)),
    "The sign of life of a copy's follower": encode_sign(Sign(1, 1, 1, "")),
    "A proxy key": encode_proxy(ProxyValue((1,), "", True, Home(), PeerPort("a:1", b"a"), 1, visits=True)),
    "The state page": encode_state(StateValue(1, 1, 1, 1, {}, (), BudgetsValue(1, {}, ()))),
}


@one_by_one(("heading", "value"), _VALUES.items())
def test_the_contract_has_each_member_of_each_value(heading: str, value: bytes) -> None:
    contract = (Path(json_values.__file__).parent / "README.md").read_text()
    _, _, section = contract.partition(f"### {heading}\n")
    section, _, _ = section.partition("\n#")
    found = re.search(r"^    (\{.*?\})\n\n", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    example = unpack_json(re.sub(r"\n +", "", found[1]).encode(), "the example")
    assert set(example) <= set(json.loads(value))
    members = re.compile(r'"([a-z_]+)":').findall
    assert set(members(value.decode())) <= set(members(section))
