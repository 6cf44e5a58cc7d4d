"""Java's strings."""

from hypothesis import given
from hypothesis import strategies as st

from codec.jute import from_text
from pipeline.formats.text import decode


@given(st.text(st.characters(codec="utf-8")))
def test_both_encodings_are_the_same_text(text: str) -> None:
    assert decode(text.encode()) == text
    assert decode(from_text(text)) == text


@given(st.binary(max_size=20))
def test_no_bytes_fail_and_all_text_can_be_written(raw: bytes) -> None:
    assert decode(raw).encode().decode() == decode(raw)


def test_half_a_character_is_replaced() -> None:
    assert decode(b"a\xed\xa0\xbdb") == "a\ufffdb"
    assert decode(b"\xff") == "\ufffd"
