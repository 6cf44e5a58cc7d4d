"""Tables, sizes, JSON."""

from proxy.ctl.output import counted, date, size, table, visible


def test_columns_are_aligned() -> None:
    assert table(("a", "bb"), [(100, None), (1, "x")]) == ["a    bb", "100  None", "1    x"]
    assert table(("a", "b"), []) == ["a  b"]


def test_sizes_for_people() -> None:
    assert [size(count) for count in (0, 9999, 10_000, 9_999_999, 123_456_789)] == [
        "0 B",
        "9999 B",
        "10 kB",
        "10000 kB",
        "123 MB",
    ]
    assert (counted(1, "request"), counted(0, "request")) == ("1 request", "0 requests")


def test_control_characters_are_escaped() -> None:
    assert visible("a\tb\nü") == "a\tb\nü"
    assert visible("\x1b]0;title\x07\r\x7f\x9b\u202e") == r"\x1b]0;title\x07\r\x7f\x9b\u202e"


def test_dates() -> None:
    assert date(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"
    assert date(1 << 62) == str(1 << 62)
