"""The answers as one document."""

from contextlib import closing
from html.parser import HTMLParser

from pipeline.traffic.database import Database
from pipeline.traffic.report import Report, document, made, page, shown, text
from pipeline.traffic.views import VIEWS
from tests.pipeline.traffic.rows import lively, traffic


def report(*, empty: bool = False, top: int = 10) -> Report:
    with closing(Database()) as database:
        database.add([] if empty else [*lively(), traffic("create", "/<b>&amp;", number=99)])
        return made("etcd://127.0.0.1:2379/zketcd", database.query, top)


def test_facts_and_lists() -> None:
    found = document(report(top=2))
    assert (found["requests"], found["operations"], found["failed requests"]) == (15, 21, 1)
    assert (found["sessions opened"], found["sessions closed"]) == (1, 3)
    assert (found["znodes added"], found["seconds"]) == (8, 86_401)
    assert found["znodes added a day"] == 8
    assert found["from"].endswith(" UTC")
    assert found["from"][:10] < found["to"][:10]  # a day and a second
    assert len(found["traffic_prefixes"]) == 2
    (most, _) = found["traffic_prefixes"]
    assert list(most)[:3] == ["prefix", "writes", "share_percent"]
    whole = document(report(top=100))["traffic_prefixes"]
    assert most["share_percent"] == round(100 * most["writes"] / sum(row["writes"] for row in whole), 1)


def test_an_hour_says_nothing_of_a_day_and_failures_have_no_path() -> None:
    with closing(Database()) as database:
        database.add([traffic("create", "/a", nodes=1), traffic("error", None, result="NONODE", number=2)])
        found = document(made("directory", database.query, 10))
    assert "znodes added a day" not in found
    prefixes = {row["prefix"] for row in found["traffic_prefixes"]}
    assert prefixes == {"/a", "(failed: its path is not in the log)"}
    assert {view.name for view in VIEWS} - {"traffic_seconds"} <= set(found)


def test_text() -> None:
    lines = text(report()).splitlines()
    assert lines[0] == "requests                 15"
    start = lines.index("Multis by size (traffic_multis)")
    assert lines[start + 1 : start + 4] == [
        "  parts  multis  bytes  size  failed",
        "      1       1      0    20       0",
        "      3       3    478    60       0",
    ]
    with closing(Database()) as database:
        database.add([traffic("delete", "/a\n/b", result="NONODE")])
        assert "/a\\n/b" in text(made("a log", database.query, 10))
    assert text(report(empty=True)) == "requests                 0"
    assert [shown(value) for value in (None, 1234567, 1234.56, "x")] == ["-", "1,234,567", "1,234.6", "x"]


class _Checked(HTMLParser):
    """Whether each element is closed, and which come from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.linked += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    html = page(report(), {"traffic_seconds": "<svg></svg>", "traffic_multis": "<svg></svg>"})
    checked = _Checked()
    checked.feed(html)
    checked.close()
    assert checked.open == []
    assert checked.linked == []
    assert html.count("<svg>") == 2
    assert "/&lt;b&gt;&amp;amp;" in html
    assert "<b>" not in html
    assert "<table>" not in page(report(empty=True), {})
