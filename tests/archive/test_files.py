"""The files of an archive: names, segments, indexes, moments, retention."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from archive.archiver import retention
from archive.archiver.stats import Stats
from archive.files import index, segment
from archive.files.catalog import ArchiveError, Catalog, NotArchived
from archive.files.index import Index
from archive.files.moment import By, moment, shown
from archive.files.names import COMPLETE, Point, Segment, Snapshot, parse
from archive.files.segment import Change, Content
from archive.files.small_files import complete_up_to
from archive.files.store import Directory, Missing, Objects, Store, StoreError, store_of
from archive.past.history import History
from archive.past.verify import verify
from lab.servers.process import REPOSITORY, children_of
from proxy.options.archive import duration_ms
from schema import compression
from schema.entry import Written, encode_void
from schema.errors import BadValue
from zketcd.__main__ import main

_RUN = "20261123T074501.123Z-cdf818194e3a8c32"
_NUMBERS = some.integers(0, 10**15)
_POINTS = some.builds(Point, *[_NUMBERS] * 4)
_SMALL = some.integers(-1, 2**31 - 1)
_PATHS = some.text(some.characters(exclude_characters="/\0"), min_size=1).map(lambda name: f"/a/{name}")
_CONTENTS = some.builds(
    lambda start, end, digest, records, changes: Content(
        start,
        end,
        digest,
        [each for each, _ in records],
        [clock for _, clock in records],
        [change._replace(entry=change.entry % len(records)) for change in changes if records],
    ),
    _POINTS,
    _POINTS,
    some.integers(0, 2**64 - 1),
    some.lists(
        some.tuples(
            some.builds(Written, _NUMBERS, some.sampled_from("abc"), _NUMBERS, some.binary()), _NUMBERS
        )
    ),
    some.lists(
        some.builds(
            Change,
            some.integers(0, 100),
            some.integers(0, 100),
            some.integers(0, 3),
            _NUMBERS,
            _PATHS,
            *[_SMALL] * 4,
        )
    ),
)


def point(entries: int) -> Point:
    return Point(entries, 10 * entries, entries, 1000 * entries)


def files(*made: Segment | Snapshot, run: str = _RUN) -> list[str]:
    return [f"{run}/{each.name}" for each in made]


def test_a_segment_of_any_size_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends deletes nodes with any number of long paths by one short entry."""
    monkeypatch.setattr(compression, "MAX_BODY", 100_000)
    paths = [f"/{number}{'x' * 10_000}" for number in range(20)]
    changes = [Change(0, 0, segment.DELETED, 7, path, 1, -1, 0, -1) for path in paths]
    content = Content(point(1), point(2), 0, [Written(1, "a", 1, b"entry")], [1000], changes)
    assert segment.decode(segment.encode(content)) == content


@pytest.mark.long
@given(_CONTENTS, some.data())
def test_a_segment_comes_back_whole_or_not_at_all(content: Content, data: some.DataObject) -> None:
    value = segment.encode(content)
    assert segment.decode(value) == content
    at = data.draw(some.integers(0, len(value) - 1))
    for damaged in (value[:at], value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]):
        with pytest.raises(BadValue):
            segment.decode(damaged)


_CHANGE = Change(0, 0, segment.DELETED, 7, "/s", 1, -1, 0, -1)


@pytest.mark.parametrize(
    "change", [_CHANGE._replace(entry=1), _CHANGE._replace(kind=4), _CHANGE._replace(request=1)]
)
def test_a_change_of_what_is_not_there(change: Change, tmp_path: Path) -> None:
    start, end = point(0), point(1)
    written = Written(10, "a", 1, encode_void(1000))
    archive = Directory(str(tmp_path))
    archive.put(f"{_RUN}/{Snapshot(start).name}", b"")
    archive.put(
        f"{_RUN}/{Segment(0, end).name}", segment.encode(Content(start, end, 0, [written], [1000], [change]))
    )
    with pytest.raises(ArchiveError, match="a change of"):
        list(History(archive, "/s").events())


@given(some.sets(_PATHS))
def test_an_index_never_denies_a_path(paths: set[str]) -> None:
    found = Index(index.encode(paths))
    assert all(found.may_change(path) for path in paths)
    assert not paths or (found.may_change("/a", recursive=True) and found.may_change("/", recursive=True))
    denied = [
        f"/b/{number}" for number in range(1000) if not found.may_change(f"/b/{number}", recursive=True)
    ]
    assert len(denied) > 900


@given(_NUMBERS, _POINTS)
def test_names_are_read_back(first: int, at: Point) -> None:
    for made in (Segment(first, at), Snapshot(at)):
        assert parse(f"{_RUN}/{made.name}") == (_RUN, made)
    assert parse("other/file") is None


def test_a_catalog_chooses_segments_that_chain() -> None:
    """What archivers have left that were killed, or ran at once."""
    chain = [Segment(0, point(10)), Segment(8, point(25)), Segment(25, point(30))]
    left = [Segment(0, point(4)), Segment(3, point(9)), Segment(25, point(27))]
    (run,) = Catalog(files(Snapshot(point(0)), *left, *chain)).runs
    assert (run.segments, sorted(run.superseded), run.holes) == (chain, sorted(left), [])
    (run,) = Catalog(files(Snapshot(point(0)), chain[0], chain[2])).runs
    assert run.holes == [(10, 25)]


def test_the_way_to_a_moment() -> None:
    base, middle = Snapshot(point(5)), Snapshot(point(20))
    segments = [Segment(5, point(10)), Segment(10, point(20)), Segment(20, point(30))]
    later = _RUN.replace("074501", "084501")
    no_run = files(Snapshot(point(0)), run="20261399T074501.123Z-cdf818194e3a8c32")
    catalog = Catalog(files(base, middle, *segments) + files(Snapshot(point(50)), run=later) + no_run)
    known = {_RUN: point(30)._replace(clock=35_000, position=333)}

    def way(text: str) -> tuple[list[Snapshot], list[Segment]]:
        found = catalog.way(moment(text, 0), known)
        return found.snapshots, found.segments

    assert way("0x9") == ([base], segments[:1])
    assert way(shown(10_000)) == ([base], segments[:2])  # more entries may have that clock
    assert way("205") == ([middle, base], segments)
    assert way("0x1e") == way(shown(34_000)) == way("320") == ([middle, base], segments)
    assert way("now")[0] == [Snapshot(point(50))]
    for text, why in (
        ("0x4", "before the archive begins"),
        ("0x1f", "lies in a gap"),
        (shown(36_000), "in a gap"),
    ):
        with pytest.raises(NotArchived, match=why):
            way(text)


def test_moments() -> None:
    assert moment("2026-11-23T03:12", 0) == moment("2026-11-23T04:12+01:00", 0)
    assert moment("10m", 700_000).value == 100_000
    assert moment("0x5", 0)[:2] == (By.ZXID, 5)
    assert moment("5", 0)[:2] == (By.POSITION, 5)
    assert duration_ms("30d") == 30 * 86_400_000
    assert str(moment(f"{10**12}d", 0)) == str(-86_400_000 * 10**12)
    for bad in ("", "yesterday", "-5", "5 days", "0xg"):
        with pytest.raises(ValueError, match="is no moment"):
            moment(bad, 0)


def test_retention_keeps_what_a_moment_needs(tmp_path: Path) -> None:
    store = Directory(str(tmp_path))
    old = files(Snapshot(point(0)), Segment(0, point(10)), run=_RUN.replace("2026", "2025"))
    made = [Snapshot(point(n)) for n in (20, 40, 60)] + [Segment(n, point(n + 10)) for n in range(20, 70, 10)]
    for name in (*old, *files(*made)):
        store.put(name, b"x")
    kept = files(
        *(each for each in made if (each.at if isinstance(each, Snapshot) else each.end).entries > 40)
    )
    kept += files(Snapshot(point(40)))
    assert (
        retention.expire(store, store.list(), 15_000) == []
    )  # the older run answers for the time before the other begins
    retention.expire(store, store.list(), 45_000)
    assert sorted(store.list()) == sorted(kept)
    retention.expire(store, store.list(), 10**9)
    assert sorted(store.list()) == sorted(files(made[2], made[-1]))


def test_two_writers_with_the_same_pid_write_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Archivers in two containers have one volume, and often equal pids."""
    store, fsync = Directory(str(tmp_path / "a")), os.fsync

    def the_other_comes(file: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        store.put("complete", b"other")
        fsync(file)

    monkeypatch.setattr(os, "fsync", the_other_comes)
    store.put("complete", b"first")
    assert store.get("complete") == b"first"
    assert list(store.list()) == ["complete"]


def test_a_wrong_directory_is_no_empty_history(tmp_path: Path) -> None:
    with pytest.raises(NotArchived, match="the archive is empty"):
        list(History(Directory(str(tmp_path / "typo")), "/a").events())


@pytest.mark.parametrize(("command", "status"), [("list", 1), ("verify", 1)])
def test_a_wrong_directory_is_no_sound_archive(
    command: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", command, str(tmp_path / "typo")]) == status
    assert f"there is no directory {tmp_path / 'typo'}" in capsys.readouterr().err


@pytest.mark.parametrize("is_replaced", [True, False])
def test_an_open_segment_may_be_written_anew_while_it_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_replaced: bool
) -> None:
    store = Directory(str(tmp_path))
    listed, there = (dict.fromkeys(files(Snapshot(point(0)), Segment(0, point(end))), 1) for end in (10, 12))
    lists = [listed, there if is_replaced else {}]
    monkeypatch.setattr(store, "list", lambda: lists.pop(0))
    found = [finding.error for finding in verify(store) if finding.file.endswith(".log")]
    assert found == ([] if is_replaced else ["it was deleted meanwhile"])


def test_metrics_that_cannot_be_written_do_not_stop_the_archiver(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "later" / "zketcd.prom"
    stats = Stats(str(file))
    stats.write()
    stats.write()
    assert [str(file) in each.getMessage() for each in caplog.records] == [True]
    file.parent.mkdir()
    stats.write()
    assert "zketcd_archive_entries 0\n" in file.read_text()


def _check(store: Store) -> None:
    assert store.list() == {}
    store.put(f"{_RUN}/file", b"one")
    store.put(f"{_RUN}/file", b"two")
    assert (store.get(f"{_RUN}/file"), store.list()) == (b"two", {f"{_RUN}/file": 3})
    store.delete(f"{_RUN}/file")
    store.delete(f"{_RUN}/file")
    assert store.list() == {}
    with pytest.raises(Missing):
        store.get(f"{_RUN}/file")


def test_a_directory(tmp_path: Path) -> None:
    store = store_of(f"file://{tmp_path}/new")
    _check(store)
    for name, age in ((f"{_RUN}/.old.1", 7200), (f"{_RUN}/.new.2", 0)):
        part = tmp_path / "new" / name
        part.write_bytes(b"part")
        os.utime(part, (time.time() - age,) * 2)
    store.tidy()
    assert [each.name for each in (tmp_path / "new" / _RUN).iterdir()] == [".new.2"]
    away = store_of(f"{tmp_path}/away/archive")
    for fails in (away.list, lambda: away.put(f"{_RUN}/file", b"")):
        with pytest.raises(StoreError, match="such"):
            fails()
    with pytest.raises(ValueError, match="no archive: give a directory"):
        store_of("ftp://host/path")


def test_a_pipe_is_no_file_of_an_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "segment")
    with pytest.raises(StoreError, match="segment: it is no regular file"):
        store_of(str(tmp_path)).get("segment")


def test_what_others_hide_in_their_folders_stays(tmp_path: Path) -> None:
    """They may be beside the runs, as on a volume for all backups."""
    theirs = tmp_path / "other" / ".profile.1"
    folder = tmp_path / "other" / ".git.1"
    folder.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    for each in (theirs, folder):
        os.utime(each, (0, 0))
    store_of(str(tmp_path)).tidy()
    assert theirs.exists()


def test_an_object_store(tmp_path: Path) -> None:
    """The library's own directories stand for the stores that it knows."""
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    _check(Objects(f"file://{tmp_path}/one"))
    assert Objects(f"file://{tmp_path}/other").list() == {}
    with pytest.raises(StoreError):
        Objects(f"file://{tmp_path}/none").list()
    with pytest.raises(StoreError, match="s3://"):
        Objects("s3://")


def test_s3_without_credentials_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("AWS_")]:
        monkeypatch.delenv(name)

    def silent(*_: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr("archive.files.store.socket.create_connection", silent)
    with pytest.raises(
        StoreError, match=r"^s3://b/p: there are no credentials. Set AWS_.*, gave none: timed out"
    ):
        Objects("s3://b/p")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    Objects("s3://b/p")


_COMMAND = (
    "import signal, sys\n"
    # A shell that starts the tests in the background has them ignore SIGINT, and their children too.
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from zketcd.__main__ import entry\n"
    "sys.exit(entry())\n"
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "signum", "end"),
    [
        (("list",), signal.SIGINT, (130, b"zketcd: interrupted\n")),
        (("list",), signal.SIGTERM, (-signal.SIGTERM, b"zketcd: terminated\n")),
        (("--etcd", "http://127.0.0.1:1"), signal.SIGINT, (-signal.SIGINT, b"")),
        (("--etcd", "http://127.0.0.1:1"), signal.SIGTERM, (-signal.SIGTERM, b"")),
    ],
)
def test_a_signal_ends_a_command_whose_store_does_not_answer(
    words: tuple[str, ...], signum: int, end: tuple[int, bytes]
) -> None:
    """obstore looks at no signal for the three minutes in which it tries again."""
    assert _ended((), words, signum) == end


@pytest.mark.long
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_archiver_that_is_the_first_process_of_a_container(signum: int) -> None:
    """The kernel ignores it there without a handler: `docker stop` waited for ten seconds, and killed."""
    container = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*container, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces of process ids here")
    assert _ended(container, ("--etcd", "http://127.0.0.1:1"), signum) == (128 + signum, b"")


def _ended(within: Sequence[str], words: Sequence[str], signum: int) -> tuple[int, bytes]:
    """How a command ends that gets this signal as it waits for its store. `within`: what starts it."""
    with socket.create_server(("127.0.0.1", 0)) as store:
        store.settimeout(60)
        access = {"AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "two", "AWS_ALLOW_HTTP": "true"}
        environment = {**os.environ, **access, "AWS_ENDPOINT": f"http://127.0.0.1:{store.getsockname()[1]}"}
        with subprocess.Popen(
            [*within, sys.executable, "-c", _COMMAND, "archive", *words, "s3://bucket/archive"],
            cwd=REPOSITORY,
            env=environment,
            stderr=subprocess.PIPE,
        ) as command:
            try:
                client, _ = store.accept()
                with client:
                    client.recv(1)  # the request is under way
                    os.kill(children_of(command.pid)[0] if within else command.pid, signum)
                    _, errors = command.communicate(timeout=30)
            finally:
                command.kill()
    return command.returncode, errors


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o022, 0o640, 0o750), (0o077, 0o600, 0o700)])
def test_no_other_user_reads_an_archive(tmp_path: Path, mask: int, file: int, folder: int) -> None:
    root = tmp_path / "archive"
    former = os.umask(mask)
    try:
        Directory(str(root)).put(f"{_RUN}/complete", b"x")
    finally:
        os.umask(former)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (root / _RUN / "complete", root / _RUN, root)]
    assert modes == [file, folder, folder]


def test_a_folder_that_is_no_run_is_not_listed(tmp_path: Path) -> None:
    """A volume has lost+found in its root, which only root may read."""
    store = Directory(str(tmp_path))
    store.put(f"{_RUN}/complete", b"x")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lost+found" / "#12").write_bytes(b"y")
    assert store.list() == {f"{_RUN}/complete": 1}


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Directory(str(tmp_path))
    store.put(f"{_RUN}/complete", b"x")
    scandir = os.scandir

    def refused(path: str) -> object:
        if path.endswith(_RUN):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(StoreError, match=f"cannot list {tmp_path}/{_RUN}: Permission denied"):
        store.list()


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"5", b"[]", b"{}", b"[" * 100_000),
        *(
            b'{"entries": %b, "position": 1, "zxid": 1, "clock": 1}' % number
            for number in (b'"9"', b"9.5", b"null", b"Infinity")
        ),
    ],
)
def test_up_to_where_a_run_is_complete_is_not_believed_if_it_is_no_point(
    tmp_path: Path, value: bytes
) -> None:
    """It is the one file that is written again and again, and has no checksum."""
    store = Directory(str(tmp_path))
    for name in files(Snapshot(point(0)), Segment(0, point(10))):
        store.put(name, b"x")
    store.put(f"{_RUN}/{COMPLETE}", value)
    (run,) = Catalog(store.list()).runs
    assert complete_up_to(store, run) == point(10)
