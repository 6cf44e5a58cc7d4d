"""Versions of etcd: what may be used and what is warned of."""

import re

from lab.servers.process import REPOSITORY
from proxy.etcd.versions import BUGS, Version, parse, reads_are_new, usable, warnings
from tests.table import one_by_one

LOSES_DATA = "lose or corrupt data"
OLD_READS = "issue 20418"
BUGS_OF_3_4_30 = "issue 15247", "issue 17529", OLD_READS


@one_by_one(
    ("version", "expected"),
    [
        ("3.3.27", (LOSES_DATA,)),
        ("3.4.21", (LOSES_DATA,)),
        ("3.4.22", BUGS_OF_3_4_30),
        ("3.4.30", BUGS_OF_3_4_30),
        ("3.4.31", (OLD_READS,)),
        ("3.4.41", (OLD_READS,)),
        ("3.4.42", ()),
        ("3.5.0", (LOSES_DATA,)),
        ("3.5.5", (LOSES_DATA,)),
        ("3.5.6", BUGS_OF_3_4_30),
        ("3.5.12", BUGS_OF_3_4_30),
        ("3.5.13", (OLD_READS,)),
        ("3.5.27", (OLD_READS,)),
        ("3.5.28", ()),
        ("3.6.0-rc.1", (OLD_READS,)),
        ("3.6.8", (OLD_READS,)),
        ("3.6.9", ()),
        ("3.7.0", ()),
        ("3.10.0", ()),
        ("4.0.0", ()),
    ],
)
def test_warnings(version: str, expected: tuple[str, ...]) -> None:
    parsed = parse(version)
    assert parsed is not None
    for warning, text in zip(warnings(version), expected, strict=True):
        assert str(parsed) in warning
        assert text in warning
    assert usable(parsed) is (LOSES_DATA not in expected)
    assert reads_are_new(version) is (expected == ())


@one_by_one("text", ["", "unknown", "3.4", "3.4.x", "3.4.2.1", "-1.2.3"])
def test_what_is_no_version_is_not_warned_of(text: str) -> None:
    assert parse(text) is None
    assert warnings(text) == []
    assert not reads_are_new(text)


@one_by_one(
    ("version", "new"),
    [
        ("3.4.41", False),
        ("3.4.42", True),
        ("3.6.9", True),
        ("3.6.9-rc.0", False),
        ("3.7.0-alpha.0", False),
        ("", False),
    ],
)
def test_whose_linearizable_reads_are_never_old(version: str, new: bool) -> None:
    assert reads_are_new(version) is new


def test_a_version_is_shown_as_etcd_shows_it() -> None:
    assert str(parse("3.5.21+git")) == "3.5.21"
    assert parse("3.5.21") == Version(3, 5, 21)


def test_the_document_has_each_bug_that_is_warned_of() -> None:
    page = (REPOSITORY / "docs" / "etcd-bugs.md").read_text().partition("## Bugs")[2]
    for bug in BUGS:
        (row,) = re.findall(rf"^\| [^|]*\b{bug.issue}\b[^|]* \|.*$", page, re.MULTILINE)
        assert all(str(fixed) in row for fixed in bug.fixed)


def test_the_image_of_the_demonstration_is_one_without_warnings() -> None:
    compose = (REPOSITORY / "docker-compose.yml").read_text()
    found = re.search(r"coreos/etcd:v([\d.]+)", compose)
    assert found is not None
    assert parse(found[1]) is not None
    assert warnings(found[1]) == []
