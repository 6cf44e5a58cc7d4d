"""A data directory: which snapshot and which logs are used, and the state that they lead to.

This does as FileTxnSnapLog.restore, with one difference: ZooKeeper starts with all that it can read; we
refuse to read a tree of which a part is lost, unless `repair` allows it by name.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from codec import snapshot_file
from codec.constants import OpCode
from pipeline.formats import log, snapshot, transactions
from pipeline.formats.compression import codec_of, opened
from pipeline.formats.errors import GAP, TAIL, BadFile
from pipeline.formats.replay import Replay, sessions_after, touched
from pipeline.formats.snapshot import Checked, SnapshotReader
from pipeline.table import AclRow, SessionRow, TransactionRow, ZnodeRow
from proxy.support.memory import uncollected
from schema.paths import parent_of

_RUNNING = (
    "Does a server run on this directory? Then copy it, or use `follow`. If the server was killed, option"
    " repair=tail takes the log up to there"
)
_REPORTED = 1000  # transactions between two reports


class Rejected(NamedTuple):
    """A snapshot that was skipped."""

    file: str
    reason: str


class Log(NamedTuple):
    """The used part of a log. `first` and `last` are zxids, None in a log without any entry."""

    file: str
    first: int | None
    last: int | None
    entries: int
    end: int  # the byte after the last entry that is used


class Survey(NamedTuple):
    """The content of a data directory."""

    snapshot: str  # the file
    snapshot_zxid: int
    checked: Checked
    rejected: tuple[Rejected, ...]
    logs: tuple[Log, ...]  # those with transactions after the snapshot, and the one before them
    last_zxid: int
    transactions: int  # behind the snapshot
    grown: int  # by about how many znodes these let the tree grow
    sessions: tuple[SessionRow, ...]  # at last_zxid
    digest: int | None  # that the tree should have at last_zxid; None if the files do not have it
    notes: tuple[str, ...]  # the damage that was found and allowed

    @property
    def fuzzy(self) -> bool:
        """Whether the snapshot says that it has parts of transactions after the one in its name."""
        return self.checked.written_at > self.snapshot_zxid

    @property
    def incomplete(self) -> bool:
        """Whether the snapshot has parts of transactions that are in no log: such a tree never existed."""
        return self.checked.written_at > self.last_zxid


def files(path: str, log_path: str | None = None) -> tuple[list[str], list[str]]:
    """Snapshots and logs of a directory, each ascending by zxid. `path` is dataDir or its version-2.

    Raises BadFile if there is no such directory.
    """
    return _entries(path, log_path, Path.is_file)


def _entries(path: str, log_path: str | None, wanted: Callable[[Path], bool]) -> tuple[list[str], list[str]]:
    folder = _version_folder(path)
    log_folder = _version_folder(log_path) if log_path else folder
    return _by_zxid(folder, snapshot.zxid_of, wanted), _by_zxid(log_folder, log.zxid_of, wanted)


def _is_no_file(entry: Path) -> bool:
    """Whether it is a directory, a pipe, or a link to nowhere."""
    return not entry.is_file()


def survey(
    path: str,
    log_path: str | None = None,
    *,
    chosen: str | None = None,
    repair: frozenset[str] = frozenset(),
    upto: int | None = None,
) -> Survey:
    """Read what determines a directory's state, without its nodes: seals, checksums, headers.

    `chosen` names a snapshot to start from instead of the newest valid one; `repair` is of errors.REPAIRS.
    `upto`: the state at this zxid, from a snapshot without later transactions. The time is that of one pass
    over the bytes of the snapshot and of the logs after it. Raises BadFile.
    """
    snapshots, logs = files(path, log_path)
    no_snapshots, no_logs = _entries(path, log_path, _is_no_file)
    if upto is not None:
        snapshots = [file for file in snapshots if _zxid(file) <= upto]
        logs, no_logs = ([each for each in some if _log_zxid(each) <= upto] for some in (logs, no_logs))
    file, checked, rejected = _choose(path, snapshots, chosen, upto)
    if chosen is None:
        rejected += [Rejected(other, f"{other}: is no file") for other in no_snapshots]
    zxid = _zxid(file)
    with opened(file) as source:
        sessions = SnapshotReader(source, file).head().sessions
    notes: list[str] = []
    state = _LogState(zxid, repair, notes)
    counting = _counting(logs, zxid)
    read = tuple(state.read(name, last=name is counting[-1], upto=upto) for name in counting)
    state.check_present(no_logs, _counting(sorted([*logs, *no_logs], key=_log_zxid), zxid))
    for other in rejected:
        if _zxid(other.file) > state.zxid and upto is None:
            raise BadFile(
                other.file,
                None,
                f"is not usable ({other.reason}), and the logs end before it, at zxid {state.zxid:#x}; "
                f"option snapshot={Path(file).name} accepts the older tree",
            )
    state.check_complete(file, checked, bool(logs))
    if not state.count:
        digest = checked.digest[1] if checked.digest is not None and checked.digest[0] == zxid else None
    else:
        digest = state.digest
    return Survey(
        file,
        zxid,
        checked,
        tuple(rejected),
        read,
        state.zxid,
        state.count,
        state.grown,
        tuple(sessions_after(sessions, state.session_rows)),
        digest,
        tuple(notes),
    )


def nodes_about(found: Survey) -> int:
    """About how many nodes the tree has. Raises BadFile.

    As many as fit into the snapshot, if all are as large as the first, and those that the logs add.
    """
    with opened(found.snapshot) as source:
        reader = SnapshotReader(source, found.snapshot)
        start = reader.head().nodes_at
        run = reader.nodes()
    if run.last or not run.offsets:
        return max(1, len(run.offsets) + found.grown)
    return max(1, found.grown + len(run.offsets) * (found.checked.size - start) // (run.end - start))


class Run(NamedTuple):
    """A run of a snapshot's nodes."""

    start: int
    end: int | None  # None: to the end mark, up to which compressed files have to be read
    left_out: tuple[int, ...]  # records that the logs change, ascending


class Plan(NamedTuple):
    """How to read the tree at a survey's last zxid."""

    acls: dict[int, tuple[AclRow, ...]]
    runs: tuple[Run, ...]
    nodes: tuple[ZnodeRow, ...]  # those that the logs change, in their last state


def plan(found: Survey, step: int, applied: Callable[[int, int], None] = lambda _count, _size: None) -> Plan:
    """Apply the logs to the nodes that they change, and cut the snapshot into runs of about `step` bytes.

    This reads the snapshot once and the logs twice. Memory grows with the nodes that the logs change, not
    with the tree. `applied` gets the number and size of the transactions since its last call. Raises BadFile.
    """
    behind = found.snapshot_zxid + 1
    need = touched(read_entries(found.logs, behind))
    splits = not codec_of(found.snapshot)
    with opened(found.snapshot) as source:
        reader = SnapshotReader(source, found.snapshot)
        head = reader.head()
        base = _Base(dict(head.acls))
        bounds = [head.nodes_at]
        if splits or need.paths or need.closed:
            wanted = {_raw(path) for path in need.paths}
            owners = {owner.to_bytes(8, "big", signed=True) for owner in need.closed}
            bounds = reader.hop(wanted, owners, base.add, step)
            if found.checked.end not in (None, bounds[-1]):
                raise BadFile(found.snapshot, bounds[-1], "the nodes end here, but more than seals follows")
    strangers = {_raw(parent_of(path)) for path in base.nodes} - {_raw(path) for path in base.nodes}
    if strangers:  # parents of ephemerals that a closeSession deletes without naming them
        with opened(found.snapshot) as source:
            reader = SnapshotReader(source, found.snapshot)
            reader.head()
            reader.hop(strangers, (), base.add, step)
    with uncollected():
        replay = Replay(base.nodes)
        count = size = 0
        for entry, file in read_entries(found.logs, behind):
            replay.apply(transactions.rows(entry, file, file))
            count += 1
            size += len(entry.body)
            if count == _REPORTED:
                applied(count, size)
                count = size = 0
        applied(count, size)
        nodes = replay.nodes
    for path, number in base.unknown_acls.items():
        node = nodes.get(path)
        if node is not None and node.acl is _UNKNOWN_ACL:
            raise BadFile(
                found.snapshot, base.offsets[path], f"{path} has ACL {number}, which the file lacks"
            )
    left_out = sorted(base.offsets.values())
    if not splits:
        return Plan(base.acls, (Run(head.nodes_at, None, tuple(left_out)),), tuple(nodes.values()))
    runs = tuple(
        Run(start, end, tuple(left_out[bisect_left(left_out, start) : bisect_left(left_out, end)]))
        for start, end in pairwise(bounds)
    )
    return Plan(base.acls, runs, tuple(nodes.values()))


def read_entries(logs: Sequence[Log], first: int = 0) -> Iterator[tuple[log.Entry, str]]:
    """The entries of logs from zxid `first` on, in order, with their files. Raises BadFile."""
    for found in logs:
        if found.last is None or found.last < first:
            continue
        behind = found.first is not None and found.first >= first  # all of them
        with opened(found.file) as source:
            for entry in log.entries(source, found.file, log.HEADER_SIZE, found.end):
                if behind or log.zxid_at(entry.body) >= first:
                    yield entry, found.file


def read_log(
    file: str,
    last: bool,
    repair: frozenset[str] = frozenset(),
    notes: list[str] | None = None,
    visit: Callable[[log.Entry, str], None] | None = None,
    upto: int | None = None,
) -> Log:
    """The used part of a log, after a check of every entry's sum, and a call of `visit`, if given, for each.

    Entries after the zxid `upto` are not used, and not checked.

    `last`: whether no other log follows. Only then may it be empty, or damaged if `repair` allows it. Allowed
    damage is added to `notes`. Raises BadFile, and what `visit` raises.
    """
    notes = [] if notes is None else notes
    if Path(file).stat().st_size == 0:
        if not last:
            raise BadFile(file, 0, "is empty, and other logs follow")
        notes.append(f"{file}: is empty, as a server leaves it that ends as it begins a log")
        return Log(file, None, None, 0, 0)
    first = zxid = None
    count, end = 0, log.HEADER_SIZE
    with opened(file) as source:
        log.check_header(source, file)
        try:
            for entry in log.entries(source, file, log.HEADER_SIZE):
                if upto is not None and log.zxid_at(entry.body) > upto:
                    return Log(file, first, zxid, count, end)
                zxid = log.zxid_at(entry.body)
                first = zxid if first is None else first
                if visit is not None:
                    visit(entry, file)
                count += 1
                end = entry.offset + log.entry_size(entry.body)
        except log.BadSum as error:
            if not last:
                raise
            if TAIL not in repair:
                raise BadFile(file, error.offset, f"{error.reason}. {_RUNNING}") from error
            notes.append(f"{error}; the log counts up to there")
            return Log(file, first, zxid, count, end)
        how = log.end_of(source, end)
    if how.torn is not None:
        # A server that died while it wrote leaves such an end, and so does an incomplete copy.
        if last and TAIL not in repair:
            raise BadFile(file, how.offset, f"{how.torn}. {_RUNNING}")
        notes.append(f"{BadFile(file, how.offset, how.torn)}; the log counts up to there")
    elif last and not how.padded:
        notes.append(f"{file}: ends without padding, right behind an entry")
    return Log(file, first, zxid, count, end)


# A node of the fuzzy range may name an ACL that is not in the file's table, which was written before; then a
# later transaction sets the ACL again.
_UNKNOWN_ACL = (AclRow(0, "", ""),)


class _Base:
    """The nodes of a snapshot that the logs change."""

    def __init__(self, acls: dict[int, tuple[AclRow, ...]]) -> None:
        self.acls = acls
        self.nodes: dict[str, ZnodeRow] = {}
        self.offsets: dict[str, int] = {}
        self.unknown_acls: dict[str, int] = {}

    def add(self, offset: int, node: ZnodeRow, acl_id: int) -> None:
        """Add a node."""
        acl = None if acl_id == snapshot_file.OPEN_ACL_ID else self.acls.get(acl_id, _UNKNOWN_ACL)
        if acl is _UNKNOWN_ACL:
            self.unknown_acls[node.path] = acl_id
        self.nodes[node.path] = node._replace(acl=acl)
        self.offsets[node.path] = offset


class _LogState:
    """Reads logs, one after another, and checks that no transaction is missing between them."""

    def __init__(self, zxid: int, repair: frozenset[str], notes: list[str]) -> None:
        self.zxid = zxid
        self.count = 0
        self.grown = 0
        self._last: tuple[log.Entry, str] | None = None  # that is used and may have changed something
        self.session_rows: list[TransactionRow] = []
        self._start = zxid
        self._repair = repair
        self._notes = notes
        self._previous: int | None = None  # the last zxid read, whether it is used or not

    @property
    def digest(self) -> int | None:
        """The tree's digest after all transactions; None if the log does not have it. Raises BadFile."""
        return None if self._last is None else transactions.digest_of(*self._last)

    def read(self, file: str, last: bool, upto: int | None) -> Log:
        """One log up to a zxid; `last` is whether no other follows."""
        return read_log(file, last, self._repair, self._notes, self._visit, upto)

    def _visit(self, entry: log.Entry, file: str) -> None:
        zxid = log.zxid_at(entry.body)
        self._follows(file, entry.offset, zxid)
        if zxid > self._start:
            self._take(entry, file)

    def _follows(self, file: str, offset: int, zxid: int) -> None:
        before = self._previous
        self._previous = zxid
        if before is not None and zxid == before + 1 and zxid > self._start + 1:
            return  # as nearly all do
        if zxid <= self._start:
            if before is not None and zxid <= before:
                raise BadFile(file, offset, f"zxid {zxid:#x} comes after {before:#x}")
            return
        expected = max(self._start, before or 0)
        if zxid <= expected:
            raise BadFile(file, offset, f"zxid {zxid:#x} comes after {expected:#x}")
        if not log.follows(expected, zxid):
            flaw = BadFile(
                file, offset, f"transactions {expected + 1:#x} to {zxid - 1:#x} are missing before this"
            )
            if GAP not in self._repair:
                raise flaw
            self._notes.append(str(flaw))

    def check_present(self, no_files: list[str], counting: list[str]) -> None:
        """A log that counts has to be a file. Raises BadFile."""
        for file in no_files:
            if file in counting:
                flaw = BadFile(file, None, "is no file, so the transactions of this log are missing")
                if GAP not in self._repair:
                    raise flaw
                self._notes.append(str(flaw))

    def check_complete(self, snapshot: str, checked: Checked, any_logs: bool) -> None:
        """Compare the snapshot's trailers with the logs. Raises BadFile.

        A server writes a snapshot while it applies transactions. The file then has parts of their effects,
        and only their replay makes it a tree. Its trailers say which transaction was the last.
        """
        if 0 < (checked.last_zxid or 0) < self._start:
            raise BadFile(
                snapshot,
                None,
                f"was written at zxid {checked.last_zxid:#x}, before the one in its name: it was renamed",
            )
        last = checked.written_at
        if last > self.zxid:
            ends = f"the logs end at {self.zxid:#x}" if any_logs else "there is no log (--data-log-dir?)"
            flaw = BadFile(
                snapshot,
                None,
                f"holds parts of the transactions up to {last:#x}, and {ends}. Without the logs that hold"
                f" {self.zxid + 1:#x} to {last:#x} this is a tree that never existed",
            )
            if GAP not in self._repair:
                raise flaw
            self._notes.append(str(flaw))
        elif not any_logs:
            self._notes.append(f"{snapshot}: no log lies beside it. If the server has a dataLogDir, name it")

    def _take(self, entry: log.Entry, file: str) -> None:
        self.zxid = log.zxid_at(entry.body)
        self.count += 1
        kind = transactions.kind_of(entry, file)
        if kind == OpCode.ERROR:
            return  # changes nothing, and has no digest
        self._last = entry, file
        self.grown += transactions.growth(entry)
        if kind in (OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION):
            self.session_rows += transactions.rows(entry, file, Path(file).name)


def _choose(
    path: str, snapshots: list[str], chosen: str | None, upto: int | None
) -> tuple[str, Checked, list[Rejected]]:
    if chosen is not None:
        for file in snapshots:
            if Path(file).name == chosen:
                return file, snapshot.check_seal(file), []
        raise BadFile(path, None, f"holds no snapshot {chosen}")
    rejected: list[Rejected] = []
    for file in reversed(snapshots):
        try:
            checked = snapshot.check_seal(file)
        except BadFile as error:
            rejected.append(Rejected(file, str(error)))
            continue
        if upto is None or checked.written_at <= upto:
            return file, checked, rejected
    if rejected:
        raise BadFile(path, None, "holds no valid snapshot: " + "; ".join(other.reason for other in rejected))
    raise BadFile(
        path, None, "holds no snapshot" if upto is None else f"holds no snapshot of zxid {upto:#x} or before"
    )


def _counting(logs: list[str], zxid: int) -> list[str]:
    """The logs with transactions after `zxid`: the last one whose name is not above it, and later ones."""
    start = 0
    for position, file in enumerate(logs):
        if _log_zxid(file) <= zxid + 1:
            start = position
    return logs[start:]


def unneeded_logs(logs: list[str], zxid: int) -> list[str]:
    """Those of a directory's logs, ascending, without transactions after the snapshot of `zxid`."""
    return logs[: len(logs) - len(_counting(logs, zxid))]


def _version_folder(path: str) -> Path:
    folder = Path(path)
    if (folder / "version-2").is_dir():
        return folder / "version-2"
    if not folder.is_dir():
        raise BadFile(path, None, "is not a directory" if folder.exists() else "is not there")
    return folder


def _by_zxid(folder: Path, zxid_of: Callable[[str], int | None], wanted: Callable[[Path], bool]) -> list[str]:
    found = [
        (zxid, str(file))
        for file in folder.iterdir()
        if (zxid := zxid_of(file.name)) is not None and wanted(file)
    ]
    return [file for _, file in sorted(found)]


def _zxid(file: str) -> int:
    zxid = snapshot.zxid_of(Path(file).name)
    assert zxid is not None
    return zxid


def _log_zxid(file: str) -> int:
    return log.zxid_of(Path(file).name) or 0


def _raw(path: str) -> bytes:
    return b"" if path == "/" else path.encode()
