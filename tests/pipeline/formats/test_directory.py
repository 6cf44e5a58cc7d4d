"""Directories: the samples of real servers, and everything that can be wrong with one."""

import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from codec import snapshot_file
from codec.constants import OpCode
from pipeline.formats import directory, log, transactions
from pipeline.formats.errors import GAP, BadFile
from pipeline.table import AclRow, SessionRow, TransactionRow, ZnodeRow
from tests.pipeline.trees import (
    NAMES,
    SAMPLES,
    digest_of,
    expected,
    node,
    read,
    seen,
    transaction,
    without_stats,
    write_log,
    write_snapshot,
)
from tests.table import one_by_one

ROOT = node("/", 0, ctime=0, mtime=0)


@one_by_one("name", NAMES)
def test_a_sample_reads_to_what_its_server_served(name: str) -> None:
    found, nodes = read(SAMPLES / name)
    assert without_stats(seen(nodes)) == without_stats(expected(name))
    if name == "zk39-nodigest":
        assert found.digest is None
    elif name != "zk39-posixlocale":
        assert found.digest == digest_of(nodes)


SNAPSHOTS = [(name, path.name) for name in NAMES for path in sorted((SAMPLES / name).glob("*/snapshot.*"))]


@pytest.mark.long
@one_by_one(("name", "chosen"), SNAPSHOTS)
def test_from_every_snapshot_the_logs_lead_to_the_same_tree(name: str, chosen: str) -> None:
    found, nodes = read(SAMPLES / name, chosen=chosen)
    newest, newest_nodes = read(SAMPLES / name)
    assert sorted(nodes) == sorted(newest_nodes)
    assert (found.last_zxid, sorted(found.sessions)) == (newest.last_zxid, sorted(newest.sessions))
    assert Path(found.snapshot).name == chosen


def test_fuzzy_snapshots_are_told() -> None:
    path = str(SAMPLES / "zk39-fuzzy")
    found = [directory.survey(path, chosen=chosen) for name, chosen in SNAPSHOTS if name == "zk39-fuzzy"]
    assert [survey.fuzzy for survey in found].count(True) == 7


def test_a_fuzzy_snapshot_needs_the_logs_behind_it(tmp_path: Path) -> None:
    """Without them the tree never existed, whether all are missing or the last ones."""
    shutil.copytree(SAMPLES / "zk39-fuzzy" / "version-2", tmp_path / "version-2")
    found = directory.survey(str(tmp_path), chosen="snapshot.9a2")
    last = found.checked.written_at
    wrong = f"snapshot.9a2: holds parts of the transactions up to {last:#x}, and "
    for file in found.logs:
        Path(file.file).unlink()
    with pytest.raises(BadFile, match=wrong + "the logs end at 0x9a2"):
        directory.survey(str(tmp_path), chosen="snapshot.9a2")
    for log_file in tmp_path.glob("*/log.*"):
        log_file.unlink()
    with pytest.raises(BadFile, match=wrong + "there is no log"):
        directory.survey(str(tmp_path))
    accepted = directory.survey(str(tmp_path), repair=frozenset({GAP}))
    assert accepted.incomplete
    assert wrong in accepted.notes[-1]


def test_a_renamed_snapshot_is_refused(tmp_path: Path) -> None:
    """Transactions between its tree and its name would be passed over."""
    raw = write_snapshot(tmp_path, 5, [ROOT], trailers=[snapshot_file.pack_last_zxid(5)])
    raw.rename(tmp_path / "snapshot.9")
    with pytest.raises(BadFile, match="was written at zxid 0x5, before the one in its name"):
        directory.survey(str(tmp_path))


@pytest.mark.parametrize("step", [1, 1000, 10**9])
def test_a_plan_of_any_step_covers_every_node_once(step: int) -> None:
    _, nodes = read(SAMPLES / "zk38-plain", step)
    assert without_stats(seen(nodes)) == without_stats(expected("zk38-plain"))


def test_logs_may_lie_elsewhere(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "zk39-plain", tmp_path / "data")
    (tmp_path / "logs").mkdir()
    (tmp_path / "data" / "version-2" / "log.1f4").rename(tmp_path / "logs" / "log.1f4")
    found = directory.survey(str(tmp_path / "data"), str(tmp_path / "logs"))
    assert (found.snapshot_zxid, found.last_zxid) == (0x1F3, 582)


# Broken input


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of a sample's files that a test may break."""
    shutil.copytree(SAMPLES / "zk39-plain" / "version-2", tmp_path / "version-2")
    return tmp_path / "version-2"


def test_a_broken_snapshot_is_passed_over_where_the_logs_replace_it(sample: Path) -> None:
    file = sample / "snapshot.1f3"
    raw = bytearray(file.read_bytes())
    raw[5000] ^= 1
    file.write_bytes(raw)
    found, nodes = read(sample)
    assert [Path(other.file).name for other in found.rejected] == ["snapshot.1f3"]
    assert "checksum" in found.rejected[0].reason
    assert without_stats(seen(nodes)) == without_stats(expected("zk39-plain"))


def test_a_broken_snapshot_that_no_log_replaces_is_an_error(sample: Path) -> None:
    (sample / "snapshot.1f3").write_bytes((sample / "snapshot.1f3").read_bytes()[:-1])
    (sample / "log.1").unlink()
    with pytest.raises(BadFile, match=r"log\.1f4, byte 16: transactions 0x1 to 0x1f3 are missing"):
        directory.survey(str(sample))
    (sample / "log.1f4").unlink()
    with pytest.raises(BadFile, match=r"snapshot\.1f3: is not usable .* option snapshot=snapshot\.0"):
        directory.survey(str(sample))
    assert directory.survey(str(sample), chosen="snapshot.0").last_zxid == 0


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda raw: b"", "is empty"),
        (lambda raw: b"ZKLG" + raw[4:], "byte 0: is no snapshot"),
        (lambda raw: raw[:10], "byte 0: no seal at its end"),
        (lambda raw: raw[: len(raw) // 2], "no seal at its end"),
        (lambda raw: raw[:-1], "no seal at its end"),
        (lambda raw: raw[:-20] + b"\1" + raw[-19:], "byte 96420: the checksum is"),
    ],
)
def test_what_is_wrong_with_the_only_snapshot_is_said(sample: Path, break_it: object, reason: str) -> None:
    (sample / "snapshot.0").unlink()
    file = sample / "snapshot.1f3"
    file.write_bytes(break_it(file.read_bytes()))  # type: ignore[operator]
    with pytest.raises(BadFile, match=r"snapshot\.1f3.*" + reason):
        directory.survey(str(sample))


@pytest.mark.parametrize("name", ["zk39-gz", "zk39-snappy"])
@pytest.mark.parametrize("keep", [3, 100, 10_000, -1])
def test_a_compressed_snapshot_cut_short_is_said(tmp_path: Path, name: str, keep: int) -> None:
    (whole,) = (SAMPLES / name / "version-2").glob("snapshot.1f3.*")
    (tmp_path / whole.name).write_bytes(whole.read_bytes()[:keep])
    with pytest.raises(BadFile, match=r"snapshot\.1f3"):
        directory.survey(str(tmp_path))


def test_folders_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds no snapshot"):
        directory.survey(str(tmp_path))
    with pytest.raises(BadFile, match="is not there"):
        directory.survey(str(tmp_path / "none"))
    with pytest.raises(BadFile, match=r"holds no snapshot snapshot\.5"):
        directory.survey(str(tmp_path), chosen="snapshot.5")


def test_a_snapshot_sealed_over_broken_nodes_is_an_error(tmp_path: Path) -> None:
    file = write_snapshot(tmp_path, 5, [ROOT, node("/a")])
    raw = file.read_bytes()
    at = raw.index(b"\x00\x00\x00\x02/a")
    broken = raw[:at] + b"\x00\x00\x00\x01x" + raw[at + 5 : -13]
    file.write_bytes(broken + struct.pack(">q", zlib.adler32(broken)) + raw[-5:])
    with pytest.raises(BadFile, match=f"byte {at}: a node's path has length 1"):
        read(tmp_path)


def test_an_acl_that_the_file_lacks_is_an_error_unless_a_transaction_mends_it(tmp_path: Path) -> None:
    acl = (AclRow(1, "digest", "a:b"),)
    file = write_snapshot(tmp_path, 5, [ROOT, node("/a", acl=acl)])
    raw = file.read_bytes()
    head = raw.index(b"digest") - 20
    assert struct.unpack_from(">iq", raw, head - 4)[1] == 1
    # The fuzzy case: a node newer than the table of ACLs.
    fuzzy = raw[: head - 4] + bytes(4) + raw[raw.index(b"a:b") + 3 : -13]
    file.write_bytes(fuzzy + struct.pack(">q", zlib.adler32(fuzzy)) + raw[-5:])
    write_log(tmp_path, [transaction(6, OpCode.SET_ACL, "/a", acl=acl, version=1)])
    _, nodes = read(tmp_path)
    assert sorted(nodes) == [ROOT, node("/a", acl=acl, aversion=1)]
    (tmp_path / "log.6").unlink()
    write_log(tmp_path, [transaction(6, OpCode.SET_DATA, "/a", version=1)])
    with pytest.raises(BadFile, match="/a has ACL 1, which the file lacks"):
        read(tmp_path)


# Logs


def _create(zxid: int, path: str, counter: int | None = None, **fields: object) -> list[TransactionRow]:
    return [transaction(zxid, OpCode.CREATE, path, data=b"", owner=0, parent_cversion=counter, **fields)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A snapshot at 4, and logs of 3 to 5, 6 to 7."""
    write_snapshot(tmp_path, 4, [ROOT._replace(created=1, pzxid=4), node("/a", 4)], [SessionRow(7, 1000)])
    write_log(tmp_path, _create(3, "/x", 1), _create(4, "/a", 1), _create(5, "/b", 2))
    write_log(tmp_path, _create(6, "/c", 3), _create(7, "/d", 4))
    return tmp_path


def test_the_log_before_the_snapshot_counts_with_its_later_part(logs: Path) -> None:
    found, nodes = read(logs)
    assert [(item.first, item.last, item.entries) for item in found.logs] == [(3, 5, 3), (6, 7, 2)]
    assert sorted(item.path for item in nodes) == ["/", "/a", "/b", "/c", "/d"]
    assert (found.transactions, found.notes, found.sessions) == (3, (), (SessionRow(7, 1000),))


def _damage(file: Path, at: int, value: int = 0xFF) -> None:
    raw = bytearray(file.read_bytes())
    raw[at] ^= value
    file.write_bytes(raw)


def test_a_wrong_checksum_is_an_error_and_in_the_last_log_repairable(logs: Path) -> None:
    second = logs / "log.6"
    at = log.HEADER_SIZE + (len(second.read_bytes()) - log.HEADER_SIZE - 100) // 2
    _damage(second, at + 20)
    with pytest.raises(BadFile, match=rf"log\.6, byte {at}: the entry's checksum"):
        directory.survey(str(logs))
    found = directory.survey(str(logs), repair=frozenset({"tail"}))
    assert found.last_zxid == 6
    assert f"byte {at}" in found.notes[0]
    _damage(logs / "log.3", 40)
    with pytest.raises(BadFile, match=r"log\.3, byte 16"):
        directory.survey(str(logs), repair=frozenset({"tail"}))


def test_a_wrong_checksum_in_the_newest_log_may_be_an_entry_that_is_being_written(logs: Path) -> None:
    _damage(logs / "log.6", 40)
    with pytest.raises(BadFile, match=r"log\.6, byte 16: the entry's .*Does a server run on this dir"):
        directory.survey(str(logs))


@pytest.mark.parametrize("cut", [1, 20, 50])
def test_a_log_cut_within_an_entry_is_an_error_and_repairable(logs: Path, cut: int) -> None:
    file = logs / "log.6"
    file.write_bytes(file.read_bytes()[: -100 - cut])
    with pytest.raises(BadFile, match=r"log\.6, byte \d+: .*Does a server run on this .*repair=tail"):
        directory.survey(str(logs))
    found = directory.survey(str(logs), repair=frozenset({"tail"}))
    assert (found.last_zxid, len(found.notes)) == (6, 1)


def test_a_log_cut_within_an_entry_counts_where_the_next_one_goes_on(logs: Path) -> None:
    """As a server leaves it that died while it wrote, and was started again."""
    file = logs / "log.3"
    file.write_bytes(file.read_bytes()[:-100] + log.pack_entry(b"x" * 30)[:-5] + bytes(100))
    found = directory.survey(str(logs))
    assert found.last_zxid == 7
    assert "does not end with its mark" in found.notes[0]
    (logs / "log.6").unlink()
    with pytest.raises(BadFile, match="does not end with its mark"):
        directory.survey(str(logs))


def test_a_gap_is_an_error_and_repairable(logs: Path) -> None:
    (logs / "log.6").unlink()
    write_log(logs, _create(8, "/e", 5))
    with pytest.raises(BadFile, match=r"log\.8, byte 16: transactions 0x6 to 0x7 are missing"):
        directory.survey(str(logs))
    found = directory.survey(str(logs), repair=frozenset({"gap"}))
    assert (found.last_zxid, len(found.notes)) == (8, 1)


def test_a_new_epoch_is_no_gap(logs: Path) -> None:
    write_log(logs, _create((1 << 32) + 1, "/e", 5))
    assert directory.survey(str(logs)).last_zxid == (1 << 32) + 1
    (logs / "log.100000001").unlink()
    write_log(logs, _create((1 << 32) + 2, "/e", 5))
    with pytest.raises(BadFile, match="are missing"):
        directory.survey(str(logs))


def test_zxids_that_run_backwards_are_an_error(logs: Path) -> None:
    write_log(logs, _create(8, "/e", 5), _create(7, "/f", 6))
    with pytest.raises(BadFile, match=r"log\.8, byte \d+: zxid 0x7 comes after 0x8"):
        directory.survey(str(logs))


def test_an_unknown_transaction_is_an_error(logs: Path) -> None:
    known, unknown = (struct.pack(">i", kind) for kind in (OpCode.DELETE, OpCode.AUTH))
    packed = transactions.pack([transaction(8, OpCode.DELETE, "/e")]).replace(known, unknown)
    (logs / "log.8").write_bytes(log.pack_header() + log.pack_entry(packed))
    with pytest.raises(BadFile, match=r"log\.8, byte 16: a transaction of the unknown type 100"):
        directory.survey(str(logs))


def test_an_empty_log_is_right_only_as_the_last_one(logs: Path) -> None:
    (logs / "log.8").write_bytes(b"")
    found = directory.survey(str(logs))
    assert (found.last_zxid, len(found.notes)) == (7, 1)
    (logs / "log.6").write_bytes(b"")
    with pytest.raises(BadFile, match=r"log\.6, byte 0: is empty"):
        directory.survey(str(logs))


def test_files_that_are_no_logs(logs: Path) -> None:
    (logs / "log.8").write_bytes(b"ZKSN" + bytes(20))
    with pytest.raises(BadFile, match=r"log\.8, byte 0: is no transaction log"):
        directory.survey(str(logs))
    (logs / "log.8").write_bytes(b"ZKLG")
    with pytest.raises(BadFile, match=r"log\.8, byte 0: is cut short in its header"):
        directory.survey(str(logs))


def test_the_end_of_a_session_takes_nodes_along_that_it_does_not_name(tmp_path: Path) -> None:
    nodes: list[ZnodeRow] = [
        ROOT,
        node("/p", 1, created=2, pzxid=2),
        node("/p/e", 2, owner=7),
        node("/p/f", 2),
    ]
    write_snapshot(tmp_path, 4, nodes, [SessionRow(7, 1000)])
    write_log(tmp_path, [transaction(5, OpCode.CLOSE_SESSION, session_id=7)])
    found, after = read(tmp_path, step=1)
    assert sorted(after) == [ROOT, node("/p", 1, created=2, pzxid=5), node("/p/f", 2)]
    assert found.sessions == ()


@pytest.mark.parametrize("how", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_named_like_a_file_and_is_none_is_lost(tmp_path: Path, how: Callable[[Path], None]) -> None:
    """ZooKeeper does not start on such a log. The tree without its transactions was imported."""
    folder = tmp_path / "version-2"
    write_snapshot(folder, 5, [node("/", 0)])
    how(folder / "log.6")
    with pytest.raises(BadFile, match=r"log\.6: is no file, so the transactions of this log are missing"):
        directory.survey(str(tmp_path))
    assert directory.survey(str(tmp_path), repair=frozenset({GAP})).last_zxid == 5
    assert directory.survey(str(tmp_path), upto=5).last_zxid == 5
    (folder / "log.6").rename(folder / "snapshot.300")
    with pytest.raises(BadFile, match=r"snapshot\.300: is not usable .*is no file"):
        directory.survey(str(tmp_path))
    assert directory.survey(str(tmp_path), chosen="snapshot.5").last_zxid == 5


def test_a_log_of_before_the_snapshot_may_be_no_file(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 5, [node("/", 0)])
    write_log(tmp_path, [transaction(5, OpCode.SET_DATA, "/")])
    (tmp_path / "log.1").mkdir()
    assert directory.survey(str(tmp_path)).last_zxid == 5
