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


def test_a_word_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="'rouk' is no four-letter word; there are apiv clrs conf"):
        words.parse("ruok,rouk")
