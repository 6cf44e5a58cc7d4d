"""Files of an archive with each other's names, as after a wrong copy: no reader takes one for the other."""

from pathlib import Path

import pytest

from archive.files import container, segment
from archive.files.catalog import ArchiveError
from archive.files.moment import NOW, moment
from archive.files.names import Point, Segment, Snapshot
from archive.files.segment import Content
from archive.files.store import store_of
from archive.past.state import state_at
from archive.past.verify import verify
from pipeline.errors import Failure
from pipeline.follow.from_archive import InArchive
from pipeline.sources.archive_log import ArchiveOptions, ArchiveReader, rows_of
from proxy.state.capture import new_machine
from schema.entry import Written, decode_entry, encode_void

_RUN = "20261123T074501.123Z-cdf818194e3a8c32"
_CLOCK = 1000


def _point(entries: int) -> Point:
    return Point(entries, entries + 1, 0, _CLOCK if entries else 0)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A run of two segments, each with an entry, and a snapshot before each."""
    machine, value = new_machine(1), encode_void(_CLOCK)
    (tmp_path / _RUN).mkdir()
    for number in (1, 2):
        start, end = _point(number - 1), _point(number)
        _put(tmp_path, Snapshot(start), container.encode(container.captured(machine)))
        machine.apply("A", number, decode_entry(value))
        digest = machine.digest.settle(machine.tree.nodes)
        records = [Written(end.position, "A", number, value)]
        content = Content(start, end, digest, records, [_CLOCK], [])
        _put(tmp_path, Segment(start.entries, end), segment.encode(content))
    return tmp_path


def _put(archive: Path, file: Snapshot | Segment, value: bytes) -> None:
    (archive / _RUN / file.name).write_bytes(value)


def _get(archive: Path, file: Snapshot | Segment) -> bytes:
    return (archive / _RUN / file.name).read_bytes()


def test_a_whole_archive(archive: Path) -> None:
    assert state_at(store_of(str(archive)), NOW).entries == 2
    assert not any(found.error for found in verify(store_of(str(archive))))


def test_entries_that_make_another_state_than_they_did(archive: Path) -> None:
    """As by a release that evaluates a request otherwise."""
    newest = Segment(1, _point(2))
    content = segment.decode(_get(archive, newest))
    _put(archive, newest, segment.encode(content._replace(digest=content.digest ^ 1)))
    with pytest.raises(ArchiveError, match="the entries 2 to 2 make another state than the archiver had"):
        state_at(store_of(str(archive)), NOW)


async def test_a_segment_of_other_entries(archive: Path) -> None:
    """The state would lack the newest changes, and nobody would be told."""
    url, newest = str(archive), Segment(1, _point(2))
    _put(archive, newest, _get(archive, Segment(0, _point(1))))
    with pytest.raises(ArchiveError, match="its name and its content are about other entries"):
        state_at(store_of(url), NOW)
    with pytest.raises(Failure, match="about other entries"):
        await InArchive("it", url).open(2, None)
    for results in (True, False):
        options = ArchiveOptions.of({"path": url}, results=results)
        with pytest.raises(Failure, match="about other entries"):
            [list(rows_of(options, part)) for part in ArchiveReader(options).partitions()]
    (damaged,) = [found.file for found in verify(store_of(url)) if found.error]
    assert damaged.endswith(newest.name)


async def test_a_snapshot_of_a_later_state(archive: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The state of a moment would have what came after it."""
    url, first = str(archive), Snapshot(_point(0))
    _put(archive, first, _get(archive, Snapshot(_point(1))))
    (archive / _RUN / Snapshot(_point(1)).name).unlink()
    with pytest.raises(ArchiveError, match="no snapshot before that moment can be read"):
        state_at(store_of(url), moment("1", 0))
    assert "its name and its content are about other states: it has 1 entries" in caplog.text
    with pytest.raises(Failure, match="about other states"):
        await InArchive("it", url).open(1, None)
    options = ArchiveOptions.of({"path": url}, results=True)
    with pytest.raises(Failure, match="about other states"):
        [list(rows_of(options, part)) for part in ArchiveReader(options).partitions()]
