"""Texts in binary values: every str comes back, cut ones are refused."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.errors import BadValue
from schema.text import Fields, pack_texts, to_bytes, to_text
from tests.schema.strategies import TEXTS


@given(TEXTS)
def test_every_str_comes_back(text: str) -> None:
    assert to_text(to_bytes(text)) == text


@given(st.lists(TEXTS, max_size=4))
def test_texts_come_back(texts: list[str]) -> None:
    fields = Fields(pack_texts(texts), "it")
    assert [fields.text() for _ in texts] == texts
    assert fields.remaining == 0
    fields.end()


def test_what_ends_too_early_or_too_late_or_is_no_text_is_refused() -> None:
    for size in range(7):
        with pytest.raises(BadValue, match=f"it of {size} bytes is cut short"):
            Fields(pack_texts(["abc"])[:size], "it").text()
    with pytest.raises(BadValue, match="cut short"):
        Fields(b"abc", "it").unpack(Struct(">I"))
    with pytest.raises(BadValue, match="cut short"):
        Fields(b"abc", "it").raw(4)
    fields = Fields(b"abc", "it")
    assert fields.raw(1) == b"a"
    with pytest.raises(BadValue, match="it has 2 bytes more than it should"):
        fields.end()
    with pytest.raises(BadValue, match="not UTF-8"):
        to_text(b"\xff")
