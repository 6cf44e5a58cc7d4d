"""Reads the transaction log of a running ZooKeeper as it grows: each transaction once, in order.

The files may be a copy that is made while we read: they appear late, end within an entry, are replaced by
longer ones. So no fault is an error at once. For a fault that may still disappear, `Unsettled` is raised: the
caller reads again, and gives up if the fault stays.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline.follow.output import Stuck
from pipeline.formats import directory, log, snapshot
from pipeline.formats.log import Entry

_HEAD = struct.Struct(">qi")
_CHUNK = 4 << 20
_MOST_BYTES = 1 << 20  # of entries in one answer: between two, a follower checks whether it has to finish
# No server writes longer entries: jute.maxbuffer and its extra are 1 MiB each.
_LONGEST = 1 << 28
_START_OVER = "If this stays so, start the follow over (--overwrite)"


class Unsettled(Stuck):
    """The files do not continue from the last transaction that was read: not yet, or never."""


class Found(NamedTuple):
    """Transactions that follow the last one."""

    entries: list[Entry]
    file: str
    more: bool  # after them; False: the log ended here when it was read


class _Place(NamedTuple):
    """Where the next entry is expected."""

    file: str
    offset: int
    last: tuple[int, bytes] | None  # the previous entry: its byte offset, and the header that it had


class Tail:
    """Reads the transactions after a given one."""

    def __init__(self, path: str, log_path: str | None, zxid: int, mark: int | None, *, torn: bool) -> None:
        """`zxid` is the last transaction that is known, `mark` its checksum in the log (None: unknown).

        `torn`: treat the newest log as complete up to its first damage.
        """
        self.zxid = zxid
        self.mark = mark
        self._path = path
        self._log_path = log_path
        self._torn = torn
        self._place: _Place | None = None

    def read(self) -> Found:
        """New transactions. No entries: the log ends here. Raises Unsettled, BadFile, OSError."""
        # In this order: a log that already has a successor is complete when it is read later.
        snapshots, logs = directory.files(self._path, self._log_path)
        place = self._place
        if place is None or place.file not in logs:
            if not logs and self.mark is None:
                return Found([], self._path, False)  # a server started on a snapshot, and not used since
            place = self._find(logs)
        while True:
            found, place, flaw, whole = self._entries(place)
            following = _after(logs, place.file)
            if found:
                self._place = place
                self.zxid = log.zxid_at(found[-1].body)
                self.mark = zlib.adler32(found[-1].body)
                # A fault after them is reported when no transaction is left to apply.
                right = flaw is None and _newest(snapshots) <= self.zxid
                return Found(found, place.file, more=following is not None or not (whole and right))
            if following is None:
                break
            place = self._next(following, flaw)
        if flaw is not None and not self._torn:
            raise Unsettled(
                f"{flaw}. A server that was killed leaves such an end, and so does a copy that is not"
                " complete; --repair tail takes the log up to there"
            )
        self._place = place
        self._compare_snapshots(snapshots)
        return Found([], place.file, False)

    def _find(self, logs: list[str]) -> _Place:
        """The place after the last transaction, in any log. Raises Unsettled."""
        holding = [file for file in logs if _named(file) <= self.zxid + 1]
        if not holding:
            following = next((file for file in logs if log.follows(self.zxid, _named(file))), None)
            if following is not None:
                return self._start(following)
            where = f"begin with {Path(logs[0]).name}" if logs else "are not there"
            raise Unsettled(
                f"{self._path}: the logs {where}, so the transactions from {self.zxid + 1:#x} on were purged"
                f" before they were read, or are not copied yet. {_START_OVER}"
            )
        file = holding[-1]
        if Path(file).stat().st_size < log.HEADER_SIZE and len(holding) > 1:
            file = holding[-2]  # a log that was just created
        place = self._start(file)
        before = 0
        for entry, checksum in _whole_entries(file, place.offset):
            zxid = log.zxid_at(entry.body)
            if zxid > self.zxid:
                break
            before = zxid
            head = _HEAD.pack(checksum, len(entry.body))
            place = _Place(file, entry.offset + log.entry_size(entry.body), (entry.offset, head))
            if zxid == self.zxid and self.mark not in (None, checksum):
                raise Unsettled(
                    f"{file}, byte {entry.offset}: transaction {zxid:#x} is not the one that was applied:"
                    " this is the log of another ensemble, or the ensemble has taken the applied one back"
                    f" (after an election). {_START_OVER}"
                )
        # A snapshot may have what the log does not: the start of an epoch, or all that a leader has sent.
        if self.mark is not None and before and before != self.zxid:
            following = _after(logs, file)
            if following is None and not _has_more(place):
                raise Unsettled(
                    f"{file}: the log ends with transaction {before:#x}, before the applied"
                    f" {self.zxid:#x}: this member has fallen behind, or it is the log of another ensemble"
                )
            raise Unsettled(
                f"{file}: transaction {self.zxid:#x}, which was applied, is not in the log: it belongs to"
                " another ensemble, or this one has taken the transaction back (after an election)."
                f" {_START_OVER}"
            )
        return place

    def _start(self, file: str) -> _Place:
        return _Place(file, log.HEADER_SIZE, None)

    def _next(self, file: str, flaw: str | None) -> _Place:
        """The start of the log after one that has been read to its end. Raises Unsettled."""
        if flaw is None or self._first_follows(file):
            return self._start(file)
        raise Unsettled(f"{flaw}, and {Path(file).name} does not continue from there")

    def _first_follows(self, file: str) -> bool:
        first = next(_whole_entries(file, log.HEADER_SIZE), None)
        return first is not None and log.follows(self.zxid, log.zxid_at(first[0].body))

    def _entries(self, place: _Place) -> tuple[list[Entry], _Place, str | None, bool]:
        """Complete entries from a place on, the place after them, and the fault of what follows.

        The fourth value: whether the file was read to its end. Raises Unsettled.
        """
        file, offset, last = place
        size = Path(file).stat().st_size
        if size < log.HEADER_SIZE and last is None:
            return [], place, None, True  # just created, without its header yet
        self._check_last(file, size, last)
        if last is None:
            with Path(file).open("rb") as raw:
                log.check_magic(raw.read(log.HEADER_SIZE), file)
        found: list[Entry] = []
        zxid, total = self.zxid, 0
        for entry, checksum in _whole_entries(file, offset):
            at = log.zxid_at(entry.body)
            if at > self.zxid or found:
                if not log.follows(zxid, at):
                    raise Unsettled(
                        f"{file}, byte {entry.offset}: transactions {zxid + 1:#x} to {at - 1:#x} are missing"
                        " before this"
                        if at > zxid
                        else f"{file}, byte {entry.offset}: zxid {at:#x} comes after {zxid:#x}"
                    )
                found.append(entry)
                zxid = at
            offset = entry.offset + log.entry_size(entry.body)
            last = (entry.offset, _HEAD.pack(checksum, len(entry.body)))
            total += len(entry.body)
            if total >= _MOST_BYTES:
                return found, _Place(file, offset, last), None, False
        return found, _Place(file, offset, last), _flaw_at(file, offset), True

    def _check_last(self, file: str, size: int, last: tuple[int, bytes] | None) -> None:
        """Check that the entry read last still exists: a member may have to undo transactions."""
        if last is None:
            return
        offset, head = last
        with Path(file).open("rb") as raw:
            raw.seek(offset)
            if raw.read(len(head)) == head:
                return
        what = "is shorter now" if size <= offset else "has changed"
        raise Unsettled(
            f"{file}, byte {offset}: the log {what} where transaction {self.zxid:#x} was read and"
            " applied: the member has taken it back (after an election), or the copy is being replaced."
            f" {_START_OVER}"
        )

    def _compare_snapshots(self, snapshots: list[str]) -> None:
        """At the log's end: check that no snapshot has transactions that the log does not have."""
        if _newest(snapshots) > self.zxid:
            raise Unsettled(
                f"{snapshots[-1]} is newer than the log, which ends with transaction {self.zxid:#x}: the"
                " member fell behind and got a snapshot from its leader, or the log is not copied yet."
                f" {_START_OVER}"
            )


def _named(file: str) -> int:
    zxid = log.zxid_of(Path(file).name)
    assert zxid is not None
    return zxid


def _newest(snapshots: list[str]) -> int:
    """The zxid of the last snapshot; 0: there is none."""
    if not snapshots:
        return 0
    zxid = snapshot.zxid_of(Path(snapshots[-1]).name)
    assert zxid is not None
    return zxid


def _after(logs: list[str], file: str) -> str | None:
    at = logs.index(file) + 1 if file in logs else len(logs)
    return logs[at] if at < len(logs) else None


def _whole_entries(file: str, offset: int) -> Iterator[tuple[Entry, int]]:
    """Entries with their checksums, up to the first incomplete one. The file may grow meanwhile."""
    with Path(file).open("rb") as source:
        descriptor = source.fileno()
        buffer = os.pread(descriptor, _CHUNK, offset)
        at = 0
        while True:
            checksum, needed = 0, _HEAD.size
            if len(buffer) - at >= needed:
                checksum, length = _HEAD.unpack_from(buffer, at)
                if not 0 < length <= _LONGEST:
                    return
                needed = log.entry_size_of(length)
            if len(buffer) - at < needed:
                offset, at = offset + at, 0
                buffer = os.pread(descriptor, max(_CHUNK, needed), offset)
                if len(buffer) < needed:
                    return
                continue
            body = buffer[at + _HEAD.size : at + needed - 1]
            if buffer[at + needed - 1] != log.MARK or zlib.adler32(body) != checksum:
                return
            if len(body) < log.SHORTEST:
                return
            yield Entry(offset + at, body), checksum
            at += needed


def _has_more(place: _Place) -> bool:
    return _flaw_at(place.file, place.offset) is not None or (
        next(_whole_entries(place.file, place.offset), None) is not None
    )


def _flaw_at(file: str, offset: int) -> str | None:
    """The fault after the last complete entry; None if only zeros follow, or nothing."""
    with Path(file).open("rb") as source:
        source.seek(offset)
        rest = source.read(_CHUNK)
    if not rest.strip(b"\0"):
        return None
    return f"{file}, byte {offset}: what follows the last transaction is not a whole one"
