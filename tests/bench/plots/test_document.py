"""Documents whose marked places are filled."""

import pytest

from bench.plots.document import BadMark, filled

TEXT = (
    "Before.\n<!-- results: one -->\nold\nlines\n<!-- end -->\nBetween.\n"
    "<!-- results: two -->\n<!-- end -->\nAfter.\n"
)


def test_marked_places_are_filled_and_the_rest_stays() -> None:
    found = filled(TEXT, {"one": "1\n", "two": "2a\n\n2b", "three": "3"})
    assert found == (
        "Before.\n<!-- results: one -->\n1\n<!-- end -->\nBetween.\n"
        "<!-- results: two -->\n2a\n\n2b\n<!-- end -->\nAfter.\n"
    )
    assert filled(found, {"one": "1", "two": "2a\n\n2b"}) == found


def test_a_block_is_not_read_as_a_pattern() -> None:
    assert "\\1 \\g<name>" in filled(TEXT, {"one": "\\1 \\g<name>", "two": ""})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT.replace("two", "four"), "'four' is none of one, two"),
        ("<!-- results: one -->\n<!-- results: two -->\n<!-- end -->\n", "'one' has no end"),
        ("<!-- results: one -->\n", "has no end"),
    ],
)
def test_a_bad_mark_is_told(text: str, reason: str) -> None:
    with pytest.raises(BadMark, match=reason):
        filled(text, {"one": "", "two": ""})
