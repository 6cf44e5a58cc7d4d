"""Writes a data directory, snapshots and transaction logs, on which a server can start at any time.

A log is only appended to, and a snapshot gets its name when it is complete and on disk. So whenever this
process ends, a server that starts on the directory finds a complete tree: it ignores a torn end, as in its
own files.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from codec import snapshot_file
from codec.jute import OPEN_ACL, Acl
from codec.seal import sealed_tail
from pipeline.batches import fixed_row, row_of
from pipeline.errors import Failure
from pipeline.follow.base import load_base
from pipeline.formats import directory, log, snapshot, transactions
from pipeline.formats.errors import TAIL
from pipeline.table import AclRow, SessionRow, TransactionRow
from proxy.state.machine import Machine
from proxy.support.files import FOLDER, new_file, sync_folder
from schema.paths import CONFIG

MARK = "zketcd-export.json"  # marks a directory as an export; next to version-2
_KEPT = 3  # snapshots, as autopurge.snapRetainCount
_LOG_BYTES = 64 << 20  # of a log, and at least as many between two snapshots
_CHUNK = 1 << 20


class Owner(NamedTuple):
    """Whose tree a directory holds."""

    prefix: str
    cluster_id: int


class Files:
    """Writes one data directory."""

    def __init__(self, path: str, owner: Owner) -> None:
        """Raises Failure for a directory with anything else than this tree, or another writer; OSError."""
        self._path = Path(path)
        self._folder = self._path / "version-2"
        self._log: BinaryIO | None = None
        self._log_size = 0
        self._since_snapshot = 0
        self._snapshot_size = 0
        self._own(owner)
        self._lock = self._locked()

    def _locked(self) -> BinaryIO:
        """The mark, locked until it is closed: two writers would overwrite each other's logs."""
        file = (self._path / MARK).open("r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Failure(f"another export --follow writes into {self._path}: stop it first") from None
        return file

    def _own(self, owner: Owner) -> None:
        mark = self._path / MARK
        text = json.dumps(owner._asdict())
        if mark.exists():
            there = mark.read_text()
            if there != text:
                raise Failure(f"{self._path} holds the export of another tree: {MARK} says {there}")
            return
        if self._path.exists() and not self._path.is_dir():
            raise Failure(f"{self._path} is not a directory")
        self._folder.mkdir(FOLDER, parents=True, exist_ok=True)
        if any(directory.files(str(self._path))):
            raise Failure(f"{self._path} holds a tree already, and no earlier export --follow has written it")
        mark.write_text(text)
        sync_folder(self._path)

    def last_zxid(self) -> int | None:
        """The last complete transaction; None in an empty directory. A torn end is cut off.

        Raises BadFile, OSError.
        """
        for left in self._folder.glob("*.part"):
            left.unlink()
        if not directory.files(str(self._path))[0]:
            return None
        found = directory.survey(str(self._path), repair=frozenset({TAIL}))
        for each in found.logs:
            if each.end < Path(each.file).stat().st_size:
                os.truncate(each.file, each.end)
        self._snapshot_size = found.checked.size
        self._since_snapshot = sum(each.end for each in found.logs)
        return found.last_zxid

    def tree(self) -> Machine:
        """The tree in the directory. Raises BadFile, Failure."""
        return load_base(str(self._path), None, 0)

    def append(self, rows: list[TransactionRow]) -> None:
        """Add one transaction; it is on disk after `sync`."""
        if self._log is None or self._log_size > _LOG_BYTES:
            self._roll(rows[0].zxid)
        assert self._log is not None
        entry = log.pack_entry(transactions.pack(rows))
        self._log.write(entry)
        self._log_size += len(entry)
        self._since_snapshot += len(entry)

    def _roll(self, zxid: int) -> None:
        self._close_log()
        self._log = new_file(self._folder / f"{log.PREFIX}{zxid:x}")
        self._log.write(log.pack_header())
        self._log_size = log.HEADER_SIZE
        sync_folder(self._folder)

    def sync(self) -> None:
        """Return when all added transactions are on disk."""
        if self._log is not None:
            self._log.flush()
            os.fsync(self._log.fileno())

    def close(self) -> None:
        """Close the current log; another process may write the directory then."""
        self._close_log()
        self._lock.close()

    def _close_log(self) -> None:
        if self._log is not None:
            self.sync()
            self._log.close()
            self._log = None

    @property
    def wants_snapshot(self) -> bool:
        """Whether the log has become as long as a snapshot."""
        return self._since_snapshot > max(_LOG_BYTES, self._snapshot_size)

    def write_snapshot(self, machine: Machine) -> None:
        """Write the state as a snapshot, from which a server then starts; delete old ones."""
        self._close_log()
        name = f"{snapshot.PREFIX}{machine.zxid:x}"
        part = self._folder / f"{name}.part"
        with new_file(part) as file:
            adler = 1
            for chunk in _chunks(machine):
                adler = zlib.adler32(chunk, adler)
                file.write(chunk)
            file.write(sealed_tail(adler, []))
            self._snapshot_size = file.tell()
            file.flush()
            os.fsync(file.fileno())
        part.rename(self._folder / name)
        sync_folder(self._folder)
        self._since_snapshot = 0
        self._purge()

    def _purge(self) -> None:
        """Delete all snapshots except the newest ones, and the logs that these do not need."""
        snapshots, logs = directory.files(str(self._path))
        for file in snapshots[:-_KEPT]:
            Path(file).unlink()
        oldest = snapshot.zxid_of(Path(snapshots[-_KEPT:][0]).name) or 0
        for file in directory.unneeded_logs(logs, oldest):
            Path(file).unlink()


def _chunks(machine: Machine) -> Iterable[bytes]:
    """A snapshot's bytes up to its seal. Parents precede their children."""
    acls: dict[tuple[Acl, ...], int] = {OPEN_ACL: snapshot_file.OPEN_ACL_ID}
    for node in machine.tree.nodes.values():
        if node.acl not in acls:
            acls[node.acl] = len(acls)
    sessions = [SessionRow(session.id, session.timeout_ms) for session in machine.sessions.values()]
    table = {number: [AclRow(*entry) for entry in acl] for acl, number in acls.items() if acl is not OPEN_ACL}
    parts = [snapshot_file.pack_head(sessions, table)]
    size = 0
    for path, node in sorted(machine.tree.nodes.items()):
        row = fixed_row(CONFIG) if path == CONFIG else row_of(path, node, None)
        record = snapshot_file.pack_node(row.path, row, acls[node.acl])
        parts.append(record)
        size += len(record)
        if size > _CHUNK:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(snapshot_file.END)
    yield b"".join(parts)
