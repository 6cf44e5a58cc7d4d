"""Budgets in the log and in a snapshot's state."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.budgets import NO_BUDGETS, BudgetsValue, BudgetValue, Rule, decode_rule, encode_rule, pack_budgets
from schema.errors import BadValue
from schema.json_values import pack_json
from schema.pages import StateValue, decode_state, encode_state
from tests.table import one_by_one

_STATE = StateValue(5, 64, 2, 7, {"a": 1}, ())
_BUDGETS = BudgetsValue(1_000, {"b": -3, "a": 0}, (BudgetValue("/a", 500, 0, -7_000, 0, 990),))


@given(st.text(), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_rule_comes_back(path: str, writes: int, size: int) -> None:
    assert decode_rule(encode_rule(path, writes, size)) == Rule(path, writes, size)


def test_a_rules_bytes_and_their_damage() -> None:
    body = encode_rule("/a", 500, 10_000_000)
    assert body == struct.pack(">qqI", 500, 10_000_000, 2) + b"/a"
    for wrong in (*(body[:end] for end in range(len(body))), body + b"x", encode_rule("/a", -1, 0)):
        with pytest.raises(BadValue, match="a budget"):
            decode_rule(wrong)


def test_budgets_are_a_member_of_the_state_only_where_there_are_some() -> None:
    assert b"budgets" not in encode_state(_STATE), "the bytes of a tree without budgets are as before"
    state = _STATE._replace(budgets=_BUDGETS)
    assert decode_state(encode_state(state)) == state
    assert json.loads(encode_state(state))["budgets"] == {
        "clock": 1_000,
        "offsets": {"a": 0, "b": -3},
        "budgets": [["/a", 500, 0, -7_000, 0, 990]],
    }
    assert decode_state(encode_state(_STATE)).budgets == NO_BUDGETS


@one_by_one(
    "change",
    [
        {"clock": "1"},
        {"offsets": [1]},
        {"offsets": {"a": None}},
        {"budgets": [["/a", 1, 2, 3, 4]]},
        {"budgets": [["/a", 1, 2, 3, 4, 5.0]]},
        {"budgets": [[1, 1, 2, 3, 4, 5]]},
        {"budgets": 5},
    ],
)
def test_budgets_of_another_form_are_refused(change: dict[str, object]) -> None:
    members = json.loads(encode_state(_STATE))
    del members["schema"], members["crc"]
    wrong = {**pack_budgets(_BUDGETS), **change}
    with pytest.raises(BadValue, match="a snapshot's state has no proper"):
        decode_state(pack_json({**members, "budgets": wrong}))
