"""A log that grows, rolls, is copied, torn, purged, truncated: every transaction once, or words."""

from pathlib import Path

import pytest

from pipeline.follow.tail import Tail, Unsettled
from pipeline.formats import log, transactions
from pipeline.formats.errors import BadFile
from tests.pipeline.follow.histories import creates
from tests.pipeline.trees import node, write_log, write_snapshot

ROOT = [node("/", 0)]


class Member:
    """A data directory that a server, or a copy of one, fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "version-2"
        write_snapshot(self.folder, 0, ROOT)

    def roll(self, first: int, count: int, padding: int = 100) -> Path:
        return write_log(self.folder, *creates(first, count), padding=padding)

    def add(self, file: Path, first: int, count: int) -> None:
        raw = file.read_bytes().rstrip(b"\0")
        more = b"".join(log.pack_entry(transactions.pack(rows)) for rows in creates(first, count))
        file.write_bytes(raw + more + bytes(50))

    def tail(self, zxid: int = 0, mark: int | None = None, *, torn: bool = False) -> Tail:
        return Tail(str(self.folder), None, zxid, mark, torn=torn)


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def zxids(tail: Tail) -> list[int]:
    """All that there is to read now."""
    found: list[int] = []
    while True:
        read = tail.read()
        found += [log.zxid_at(entry.body) for entry in read.entries]
        if not read.entries and not read.more:
            return found


def test_each_transaction_comes_once(member: Member) -> None:
    tail = member.tail()
    assert zxids(tail) == []  # a server that was never used
    file = member.roll(1, 3)
    assert zxids(tail) == [1, 2, 3]
    assert zxids(tail) == []
    member.add(file, 4, 2)
    assert zxids(tail) == [4, 5]
    (member.folder / "log.6").write_bytes(b"")  # begun this moment
    assert zxids(tail) == []
    member.roll(6, 2, padding=0)
    assert zxids(tail) == [6, 7]
    first = (1 << 32) + 1
    member.roll(first, 2)
    assert zxids(tail) == [first, first + 1]
    assert tail.zxid == first + 1


def test_it_goes_on_from_any_transaction(member: Member) -> None:
    file = member.roll(1, 5)
    member.roll(6, 5)
    whole = member.tail()
    zxids(whole)
    for zxid in range(11):
        assert zxids(member.tail(zxid)) == list(range(zxid + 1, 11))
    known = member.tail(3)
    assert known.read().entries
    assert zxids(member.tail(10, whole.mark)) == []
    file.unlink()
    assert zxids(member.tail(10, whole.mark)) == []
    assert zxids(member.tail(5, 12345)) == [6, 7, 8, 9, 10]


@pytest.mark.long
def test_a_torn_end_may_still_be_written(member: Member) -> None:
    file = member.roll(1, 3, padding=0)
    raw = file.read_bytes()
    torn = 0
    for cut in range(len(raw) - 1, log.HEADER_SIZE, -1):
        file.write_bytes(raw[:cut])
        tail = member.tail()
        found: list[int] = []
        try:
            for _ in range(3):
                found += [log.zxid_at(entry.body) for entry in tail.read().entries]
        except Unsettled:
            torn += 1
            assert zxids(member.tail(torn=True)) == found
        assert found == [1, 2, 3][: len(found)]
        assert len(found) < 3
        file.write_bytes(raw)
        assert found + zxids(tail) == [1, 2, 3]
    # All but cuts between two entries, and behind the zeros that the first numbers begin with.
    assert torn > len(raw) * 0.8


def test_a_wrong_checksum_is_never_passed_over(member: Member) -> None:
    file = member.roll(1, 3)
    raw = bytearray(file.read_bytes())
    raw[log.HEADER_SIZE + 40] ^= 1
    file.write_bytes(raw)
    tail = member.tail()
    with pytest.raises(Unsettled, match="is not a whole one"):
        tail.read()
    member.roll(4, 1)
    with pytest.raises(Unsettled, match=r"log\.4 does not continue from there"):
        tail.read()


def test_an_older_log_may_end_torn_if_the_next_goes_on(member: Member) -> None:
    file = member.roll(1, 3, padding=0)
    file.write_bytes(file.read_bytes() + b"\1\2\3")
    tail = member.tail()
    assert tail.read().entries
    with pytest.raises(Unsettled):
        tail.read()
    member.roll(4, 1)
    assert zxids(tail) == [4]


def test_gaps(member: Member) -> None:
    file = member.roll(1, 3)
    tail = member.tail()
    assert zxids(tail) == [1, 2, 3]
    later = member.roll(6, 2)
    with pytest.raises(Unsettled, match="transactions 0x4 to 0x5 are missing"):
        tail.read()
    member.add(file, 4, 2)  # a copy that arrives late
    assert zxids(tail) == [4, 5, 6, 7]
    file.unlink()
    assert zxids(tail) == []
    later.unlink()
    with pytest.raises(
        Unsettled, match="the logs are not there, so the transactions from 0x8 on were purged"
    ):
        tail.read()
    member.roll(9, 1)
    with pytest.raises(Unsettled, match=r"the logs begin with log\.9"):
        tail.read()


def test_a_member_that_got_a_snapshot_from_its_leader(member: Member) -> None:
    member.roll(1, 3)
    tail = member.tail()
    assert zxids(tail) == [1, 2, 3]
    write_snapshot(member.folder, 9, ROOT)
    with pytest.raises(
        Unsettled, match=r"snapshot\.9 is newer than the log, which ends with transaction 0x3"
    ):
        tail.read()


def test_a_log_that_is_taken_back(member: Member) -> None:
    file = member.roll(1, 3)
    before = file.read_bytes()
    tail = member.tail()
    assert zxids(tail) == [1, 2, 3]
    file.unlink()
    member.roll(1, 2)
    with pytest.raises(Unsettled, match=r"0x3 was read .* has taken it back.* start the follow over"):
        tail.read()
    with pytest.raises(Unsettled, match="before the applied 0x3: this member has fallen behind"):
        member.tail(3, tail.mark).read()
    member.roll((1 << 32) + 1, 2)
    with pytest.raises(Unsettled, match=r"0x3, which was applied, is not .* start the follow over"):
        member.tail(3, tail.mark).read()
    file.write_bytes(before[:10])
    with pytest.raises(Unsettled, match="is shorter now"):
        tail.read()


def test_the_log_of_another_ensemble(member: Member) -> None:
    member.roll(1, 3)
    with pytest.raises(Unsettled, match=r"0x2 is not the one that was .* start the follow over"):
        member.tail(2, 12345).read()


def test_what_is_no_log(member: Member) -> None:
    (member.folder / "log.1").write_bytes(b"nonsense" * 10)
    with pytest.raises(BadFile, match="is no transaction log"):
        member.tail().read()
