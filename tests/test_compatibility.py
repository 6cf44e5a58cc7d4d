"""docs/compatibility.md, held to the code: what the protocol has stands there, and what it says is so."""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from codec.constants import (
    AddWatchMode,
    CreateMode,
    ErrorCode,
    EventType,
    KeeperOpCode,
    OpCode,
    Perms,
    ProtocolVersion,
    WatcherType,
)
from proxy.options import words
from proxy.state.auth.schemes import SCHEMES
from proxy.state.ops import PLAIN, ROWS
from tests.compat.cases import CASES

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "compatibility.md"

# `compat/test_cases.py[flags]`, `proxy/state/ops/test_refusals.py`, `faults/test_order.py::test_something`
_TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?(?:\[(\w+)\])?`")
# A line's first cell may have several names, each with its number in the protocol.
_NAME = re.compile(r"`([^`]+)`(?: (-?\d+))?")
_NAMES = re.compile(r"`[^`]+`(?: -?\d+)?(?:, `[^`]+`(?: -?\d+)?)*")
_SCRIPTS = {"compat/test_cases.py": CASES}
# Requests that no operation answers, but the connection itself.
_OF_THE_CONNECTION = {OpCode.PING, OpCode.AUTH, OpCode.SASL}
# No scheme's provider says who these are: ACLs know them themselves.
_OF_ACLS = {"world", "auth", "super"}


class Row(NamedTuple):
    """One name of a line of a table, with the line's cells by the table's heading."""

    heading: str  # of the first column
    name: str
    number: str  # "" if the name has none
    cells: dict[str, str]

    @property
    def is_answered(self) -> bool:
        return self.cells["zketcd"].partition(":")[0] == "yes"


@cache
def rows() -> list[Row]:
    found: list[Row] = []
    columns: list[str] = []
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns = cells
        elif not set(cells[0]) <= set("-: ") or not cells[0]:
            assert len(cells) == len(columns), line
            found += _rows(columns, cells)
    return found


def _rows(columns: list[str], cells: list[str]) -> Iterator[Row]:
    by_column = dict(zip(columns, cells, strict=True))
    names = _NAME.findall(cells[0]) if _NAMES.fullmatch(cells[0]) else [(cells[0], "")]
    for name, number in names:
        yield Row(columns[0], name, number, by_column)


def table(heading: str) -> dict[str, Row]:
    """The rows of the tables whose first column has this heading."""
    found = [row for row in rows() if row.heading == heading]
    by_name = {row.name: row for row in found}
    assert len(by_name) == len(found), "a name stands once"
    return by_name


def test_every_row_says_yes_or_no_and_names_a_test() -> None:
    assert len(rows()) > 120
    for row in rows():
        assert row.cells["zketcd"].partition(":")[0] in {"yes", "no"}, row
        assert row.cells["ZooKeeper 3.9" if "ZooKeeper 3.9" in row.cells else "ZooKeeper 3.9 sends it"], row
        assert _TEST.search(row.cells["shown by"]), row
        assert not _TEST.sub("", row.cells["shown by"]).strip(), row


def test_every_test_that_is_named_exists() -> None:
    for row in rows():
        for path, function, case in _TEST.findall(row.cells["shown by"]):
            file = REPOSITORY / "tests" / path
            assert file.is_file(), row
            if function:
                assert re.search(rf"^(async )?def {function}\(", file.read_text(), re.MULTILINE), row
            if case:
                assert case in _SCRIPTS[path], row


@pytest.mark.parametrize(
    ("heading", "members"),
    [
        ("request", [*OpCode, *KeeperOpCode]),
        ("error", ErrorCode),
        ("create mode", CreateMode),
        ("mode of addWatch", AddWatchMode),
        ("type in checkWatches, removeWatches", WatcherType),
        ("event", EventType),
        ("permission", Perms),
        ("protocol version", ProtocolVersion),
    ],
)
def test_every_number_of_the_protocol_has_its_row(heading: str, members: Iterable[Enum]) -> None:
    assert {name: row.number for name, row in table(heading).items()} == {
        member.name: str(member.value) for member in members
    }


def test_the_requests_that_are_answered() -> None:
    answered = ROWS.keys() | _OF_THE_CONNECTION
    assert {name for name, row in table("request").items() if row.is_answered} == {
        opcode.name for opcode in (*OpCode, *KeeperOpCode) if opcode in answered
    }


def test_what_zookeeper_does_not_have_is_keepers_alone() -> None:
    plain = PLAIN.reads.keys() | PLAIN.writes.keys()
    assert plain.isdisjoint(KeeperOpCode)


def test_the_errors_that_are_sent() -> None:
    """Those that the proxy names: it has no use for others."""
    sources = "\n".join(path.read_text() for path in (REPOSITORY / "proxy").rglob("*.py"))
    sent = set(re.findall(r"\bErrorCode\.([A-Z_]+)\b", sources))
    assert {name for name, row in table("error").items() if row.is_answered} == sent


def test_the_schemes() -> None:
    assert {name for name, row in table("scheme").items() if row.is_answered} == SCHEMES.keys() | _OF_ACLS


def test_the_words() -> None:
    answered = {name for name, row in table("word").items() if row.is_answered}
    assert answered == words.KNOWN
    of_zookeeper = {name for name, row in table("word").items() if row.cells["ZooKeeper 3.9"] == "yes"}
    assert of_zookeeper == words.ZOOKEEPER.keys()
