"""The text is json's own, whatever the value; and it is given in parts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admin import json_text as module
from proxy.admin.json_text import encode, encode_lines
from proxy.state.pause import NO_PAUSE

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
_KEYS = st.text(max_size=5) | st.integers()
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4)
)


@given(_VALUES)
def test_the_text_is_that_of_json(value: Any) -> None:
    text = b"".join(encode(value, NO_PAUSE)).decode()
    assert text == json.dumps(value, indent=2, separators=(",", " : "))


def test_a_long_text_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 3)
    value = {"paths": {str(number): [number, "ä"] for number in range(100)}}
    parts = encode(value, NO_PAUSE)
    assert len(parts) > 100
    assert json.loads(b"".join(parts)) == value


def test_long_pieces_are_parts_of_their_own() -> None:
    value = {f"{number}{'p' * 50_000}": [number] for number in range(20)}
    parts = encode(value, NO_PAUSE)
    assert json.loads(b"".join(parts)) == value
    assert max(map(len, parts)) < 120_000
    assert max(map(len, encode_lines("result", value, NO_PAUSE))) < 120_000


@given(st.lists(st.text(max_size=5)))
def test_lines_make_one_text(lines: list[str]) -> None:
    text = b"".join(encode_lines("result", lines, NO_PAUSE)).decode()
    assert text == json.dumps({"result": "".join(lines)}, separators=(",", ":"))


def test_many_lines_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 3)
    assert len(encode_lines("result", ["ä\n"] * 100, NO_PAUSE)) > 30
