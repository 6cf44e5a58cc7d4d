"""Distinguished names as Java writes and reads them; more is held against Java in tests/compat."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.state.auth.der import Attribute
from proxy.state.auth.names import is_name, java_name
from tests.table import one_by_one

_UTF8 = 0x0C


def _attribute(oid: str, text: str) -> Attribute:
    value = text.encode()
    return Attribute(oid, _UTF8, value, bytes([_UTF8, len(value)]) + value)


def test_what_has_no_word_is_told_in_hex() -> None:
    assert java_name([[_attribute("2.5.4.12", "Dr")]]) == "2.5.4.12=#0c024472"
    number = Attribute("2.5.4.3", 2, b"\7", b"\2\1\7")
    assert java_name([[number]]) == "CN=#020107"


def test_blanks_inside_are_looked_at_once() -> None:
    """To look for the end behind each of them would take minutes."""
    blanks = " " * 300_000
    text = Attribute("2.5.4.3", 0x0C, f"a{blanks}b \r".encode(), b"")
    assert java_name([[text]]) == f"CN=a{blanks}b\\ \\\r"


@one_by_one(
    ("tag", "value", "told"),
    [
        (0x13, b"ab", "ab"),
        (0x14, b"b\xfcm", "büm"),
        (0x16, "bümp".encode(), "bÃ¼mp"),
        (0x1B, b"\0ab", "\\00ab"),
        (0x1E, "bümp".encode("utf-16-be"), "bümp"),
        (0x1E, " a ".encode("utf-16-be"), "\\ a\\ "),
        (0x1E, "a,b".encode("utf-16-be"), "a\\,b"),
        (0x1E, b"\0\0", "\\00"),
        (0x1E, b"b\xfcm", "\u62fc\ufffd"),
        (0x0C, b"b\xfcm", "b\ufffdm"),
    ],
)
def test_types_of_strings(tag: int, value: bytes, told: str) -> None:
    # What X500Principal.getName() of JDK 17.0.21.1 gives for these bytes.
    assert java_name([[Attribute("2.5.4.3", tag, value, b"")]]) == f"CN={told}"


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), min_size=1, max_size=4))
def test_every_name_that_is_told_is_a_name(texts: list[str]) -> None:
    assert is_name(java_name([[_attribute("2.5.4.3", text)] for text in texts]))


@one_by_one("text", ["", "CN=a", "cn = a ; o=b", "O=a+OU=b", "CN=", "1.2.3=a", 'CN="a,b"', "CN=#0c00"])
def test_names_of_any_sensible_length(text: str) -> None:
    assert is_name(",".join([text or "CN=a"] * 500))


_TOO_LONG = ("CN=a" + "a" * (1 << 14), "CN=a," * (1 << 12) + "CN=a")


def test_what_is_too_long_for_a_name() -> None:
    assert not any(map(is_name, _TOO_LONG))


def test_digits_of_java_have_one_utf_16_unit() -> None:
    assert is_name("1.\u0664=a")
    assert not is_name("1.\U0001d7cf=a")
