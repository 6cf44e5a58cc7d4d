"""Users in options and files."""

import pytest

from proxy.sasl.digest_md5 import secret
from proxy.sasl.users import add, lines, user
from tests.table import one_by_one

BOB = secret("bob", "word")


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("bob:word", "word"),
        ("bob:{ha1}" + BOB.hex(), "word"),
        ("bob:{ha1}" + BOB.hex().upper(), "word"),
        ("bob:a:b ", "a:b "),
    ],
)
def test_a_user(text: str, password: str) -> None:
    assert user(text) == ("bob", secret("bob", password))


@one_by_one(
    ("text", "said"),
    [
        ("secret", "NAME:PASSWORD"),
        (":secret", "NAME:PASSWORD"),
        ("bob:", "'bob' has no password"),
        ("bob:{ha1}secret", "32 hex digits"),
        ("b@b@b:secret", "at most one @"),
    ],
)
def test_what_is_no_user_is_told_without_the_password(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        user(text)
    assert "secret" not in str(refused.value)


def test_a_file() -> None:
    assert lines("# users\n\nbob:word\r\namy:other\n") == {"bob": BOB, "amy": secret("amy", "other")}
    # Nothing but a newline ends a line.
    assert lines("bob:a\u2028b\x0cc\n") == {"bob": secret("bob", "a\u2028b\x0cc")}
    with pytest.raises(ValueError, match=r"^line 2: "):
        lines("bob:word\nbob")


def test_one_name_has_one_password() -> None:
    users = {"bob": BOB}
    add(users, "bob", BOB)
    with pytest.raises(ValueError, match="given twice"):
        add(users, "bob", bytes(16))
    with pytest.raises(ValueError, match=r"line 2: .*given twice"):
        lines("bob:word\nbob:other")
