"""Entries of an archive that this release cannot apply: every reader says so, and none fails by itself."""

import os
from pathlib import Path

import pytest

from archive.files import container, segment
from archive.files.catalog import ArchiveError
from archive.files.moment import NOW
from archive.files.names import Point, Segment, Snapshot
from archive.files.segment import Change, Content
from archive.files.store import store_of
from archive.past import query
from archive.past.state import state_at
from codec.client import create
from console.answers.past_worker import Answers
from pipeline.errors import Failure
from pipeline.sources.archive_log import ArchiveOptions, ArchiveReader, rows_of
from proxy.state.capture import new_machine
from schema.entry import EntryWriter, Kind, Written, encode_level
from zketcd.__main__ import main

_RUN = "20261123T074501.123Z-cdf818194e3a8c32"


def _entry(kind: Kind, opcode: int, body: bytes) -> bytes:
    writer = EntryWriter()
    writer.add(kind, 7, opcode, (), body)
    return writer.finish(1000, 0, 0, 0)


_CREATE = create("/s")
#: The number and value of the only entry, and what readers say of it.
_ENTRIES = {
    "a newer level": (1, _entry(Kind.LEVEL, 0, encode_level(99)), "start a newer release"),
    "of another form": (1, b"other", "cannot be applied"),
    "out of order": (2, _entry(Kind.CLIENT, int(_CREATE.opcode), _CREATE.body), "cannot follow its entry 0"),
}


@pytest.fixture(params=_ENTRIES)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Its directory, and what readers say."""
    number, value, why = _ENTRIES[request.param]
    start, end = Point(0, 1, 0, 0), Point(1, 5, 2, 1000)
    change = Change(0, 0, segment.CREATED, 2, "/s", -1, 0, -1, 1)
    content = Content(start, end, 0, [Written(5, "A", number, value)], [1000], [change])
    os.mkdir(tmp_path / _RUN)
    (tmp_path / _RUN / Snapshot(start).name).write_bytes(container.encode(container.captured(new_machine(1))))
    (tmp_path / _RUN / Segment(0, end).name).write_bytes(segment.encode(content))
    return str(tmp_path), why


def test_the_state_says_which_entry_and_why(archive: tuple[str, str]) -> None:
    url, why = archive
    with pytest.raises(ArchiveError, match=r"entry [12] of A cannot be applied: .*") as raised:
        state_at(store_of(url), NOW)
    assert why in str(raised.value)


def test_commands_say_it_in_one_line(archive: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url, why = archive
    for command, status in (
        (["ls", "/", "--archive", url, "--at", "now"], 1),
        (["diff", "0x2", "0x2", "--archive", url], 2),
        (["archive", "verify", url], 1),
    ):
        assert main(command) == status
        found = capsys.readouterr()
        assert why in found.out + found.err
        assert "Traceback" not in found.err


@pytest.mark.long
def test_children_of_the_server_say_it(archive: tuple[str, str]) -> None:
    url, why = archive
    given = {"table": "tree", "format": "jsonl", "url": url, "path": "/", "at": "now", "identities": []}
    with pytest.raises(ArchiveError, match=why):
        next(query.answer(given))
    asked = {"ask": "node", "path": "/s", "at": "0x2", "identities": []}
    answer = Answers(url).answer(asked)
    assert answer["status"] == 503
    assert why in answer["error"]


def test_spark_says_it(archive: tuple[str, str]) -> None:
    url, why = archive
    options = ArchiveOptions.of({"path": url}, results=True)
    (stretch,) = ArchiveReader(options).partitions()
    with pytest.raises(Failure, match=why):
        list(rows_of(options, stretch))
