"""Which words may be asked."""

import pytest

from proxy.admin import words


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", {"srvr"}),
        ("ruok", {"srvr", "ruok"}),
        (" mntr , apiv,", {"srvr", "mntr", "apiv"}),
        ("ruok,*", words.KNOWN),
        (words.DEFAULT, {"srvr", "ruok", "isro"}),
    ],
)
def test_a_list_of_words(text: str, allowed: set[str]) -> None:
    assert words.parse(text) == allowed


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(ValueError, match="'rouk' is not a four-letter word; known are apiv clrs conf"):
        words.parse("ruok,rouk")
