"""The loop that keeps a tree in etcd level with a ZooKeeper, up to the cut-over."""

import asyncio
import zlib
from typing import NamedTuple

from cli.output import show
from codec.constants import OpCode
from pipeline.errors import Failure
from pipeline.follow import target
from pipeline.follow.applying import Changes
from pipeline.follow.base import Same, compare_digest, load_base
from pipeline.follow.finishing import Answering, Asked, finished_by_another, print_finished, print_writers
from pipeline.follow.options import Options
from pipeline.follow.output import DONE, Status, print_progress, within
from pipeline.follow.retrying import retrying
from pipeline.follow.tail import Found, Tail, Unsettled
from pipeline.follow.target import Position, Start, Withdrawn, position_of
from pipeline.formats import transactions
from pipeline.formats.errors import BadFile
from pipeline.table import TransactionRow
from proxy.etcd.interface import Etcd
from proxy.state.machine import Machine
from schema.keys import Keyspace
from schema.zxids import epoch_begun_at

_ENTRY_BYTES = 256 << 10  # of an entry, unless one transaction needs more
# By its clients: sessions end as these go to the tree, and a ZooKeeper deletes due containers by itself.
_NO_CHANGES = (OpCode.ERROR, OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION, OpCode.DELETE_CONTAINER)


class Directory(NamedTuple):
    """A ZooKeeper's files, and how they are read."""

    path: str
    log_path: str | None = None
    log_timeout: float = 30.0  # seconds until unsettled files have to be right
    interval: float = 0.1  # seconds between two reads
    torn: bool = False  # the newest log is complete up to its first damage


async def follow(source: Directory, etcd: Etcd, keys: Keyspace, options: Options) -> int:
    """Follow until stopped, and wait for an etcd that is out of reach; returns the exit code.

    Raises Failure, EtcdError, OSError.
    """
    return await within(options.timeout, lambda _limit: _follow(source, retrying(etcd), keys, options))


async def _follow(source: Directory, etcd: Etcd, keys: Keyspace, options: Options) -> int:
    there = await position_of(etcd, keys)
    if there is not None and there.origin is not None and not options.overwrite:
        raise Failure(
            f"{keys.prefix.decode()} follows {there.source}, not a ZooKeeper. Start over with --overwrite"
        )
    if there is not None and there.finished and not options.overwrite:
        if not options.finish:
            raise Failure(
                f"{keys.prefix.decode()} has finished following, at zxid {there.zxid:#x}, and may be served"
            )
        print_finished(there, max(options.zxid, _gone_on(source, there)))
        return DONE
    if options.finish and there is not None and not options.overwrite:
        request = Asked(options.zxid, options.keep_sessions, False)
        if await finished_by_another(etcd, keys, there, request, options.answer_within):
            return DONE
    while True:
        found = await _open(source, etcd, keys, options, there)
        try:
            return await _Following(source, etcd, keys, options, found).run()
        except Withdrawn as error:
            print_progress(f"{error}: following on")
            options, there = options._replace(overwrite=False), await position_of(etcd, keys)


def _gone_on(source: Directory, there: Position) -> int:
    """The zxid of the last change that the source's clients have made since the tree was finished.

    0: none, or it is not known: the directory may be that of a member that is behind, or its logs be purged.
    """
    if there.source_zxid is None:
        return 0
    try:
        return _last_change(source, there, there.source_zxid)
    except (Unsettled, BadFile, OSError) as error:
        print_progress(f"whether clients have gone on with ZooKeeper is not known: {error}")
        return 0


def _last_change(source: Directory, there: Position, since: int) -> int:
    tail = Tail(source.path, source.log_path, since, there.mark, torn=True)
    last = 0
    while True:
        found = tail.read()
        for entry in found.entries:
            rows = list(transactions.rows(entry, found.file, found.file))
            if not all(row.type in _NO_CHANGES for row in rows):
                last = rows[0].zxid
        if not found.more:
            return last


async def _open(
    source: Directory, etcd: Etcd, keys: Keyspace, options: Options, there: Position | None
) -> Start:
    if there is not None and not options.overwrite:
        found = await target.resume(etcd, keys, options.limits)
        print_progress(f"going on behind zxid 0x{found.position.zxid:x}, where it was")
        return found

    async def make(cluster_id: int) -> tuple[Machine, Position]:
        machine = load_base(source.path, source.log_path, cluster_id)
        print_progress(f"loaded {len(machine.tree.nodes)} znodes at zxid 0x{machine.zxid:x}")
        return machine, Position("", machine.zxid, None, source.path, False)

    return await target.begin(
        etcd,
        keys,
        make,
        options.limits,
        overwrite=options.overwrite,
        progress=print_progress,
        read_metrics=options.read_metrics,
    )


class _Following:
    """One run."""

    def __init__(self, source: Directory, etcd: Etcd, keys: Keyspace, options: Options, found: Start) -> None:
        self._source = source
        self._options = options
        self._tree, self._machine, self._position = found
        self._changes = Changes(self._machine)
        self._answering = Answering(etcd, keys)
        self._status = Status(options.metrics)
        self._tail = Tail(
            source.path, source.log_path, self._position.zxid, self._position.mark, torn=source.torn
        )
        self._wrong: float | None = None  # since when the files are not right
        self._grows: float | None = None  # since when the log has grown although the end is asked for
        self._waits = False  # that was reported
        self._told = ""  # the fault that was last reported
        self._compares = True
        self._keep_sessions = options.keep_sessions

    async def run(self) -> int:
        """Run; returns the exit code."""
        options = self._options
        while True:
            # Before the files are read: all transactions that exist at the time of the request are applied.
            wanted = await self._wanted()
            found = self._read()
            if found is not None and found.entries:
                await self._apply(found)
                if self._tree.is_longer_than(options.log_bytes):
                    self._position = await self._tree.rebase(self._machine, self._position)
            if found is not None and not found.more:
                # Level with the log as it was when it was read: the log has no end while it is written.
                # The cut-over waits until the log does not grow any more.
                leaving = wanted is not None and self._machine.zxid >= wanted and not found.entries
                self._status.level(self._machine.zxid, now=leaving or options.until_level)
                if leaving:
                    return await self._finish()
                if options.until_level and self._machine.zxid >= options.zxid:
                    return DONE
                if wanted is not None and found.entries:
                    self._print_writers(wanted)
            await self._status.report(self._tree.report)
            if found is None or not (found.more or found.entries):
                await asyncio.sleep(self._source.interval)

    def _print_writers(self, wanted: int) -> None:
        """Report that the cut-over waits, if it has waited for a while."""
        now = self._options.clock.monotonic()
        if self._machine.zxid < wanted or self._grows is None:
            self._grows = now
        elif now - self._grows > self._options.tell_after:
            print_writers(self._machine.zxid)
            self._grows, self._waits = now, True

    async def _wanted(self) -> int | None:
        """The zxid at which to finish, at least; None: no request yet."""
        if self._options.finish:
            return self._options.zxid
        request = await self._answering.wanted(waits=self._waits)
        if request is None:
            self._grows, self._waits = None, False
            return None
        self._keep_sessions = request.keep_sessions
        return request.zxid

    def _read(self) -> Found | None:
        """New transactions; None while the files are not right. Raises Unsettled if they stay so."""
        try:
            found = self._tail.read()
        except (Unsettled, BadFile, FileNotFoundError) as error:
            now = self._options.clock.monotonic()
            self._wrong = now if self._wrong is None else self._wrong
            if now - self._wrong > self._source.log_timeout:
                raise Unsettled(f"stopped at zxid 0x{self._machine.zxid:x}: {error}") from error
            if now - self._wrong > self._options.tell_after and str(error) != self._told:
                self._told = str(error)
                print_progress(f"waiting: {error}")
            return None
        self._wrong = None
        return found

    async def _apply(self, found: Found) -> None:
        """Apply and append what was found, entry by entry."""
        size = count = 0
        for index, entry in enumerate(found.entries):
            rows = list(transactions.rows(entry, found.file, found.file))
            self._changes.apply(rows)
            size += len(entry.body)
            count += 1
            is_last = entry is found.entries[-1]
            if size >= _ENTRY_BYTES or count >= self._options.entry_changes or is_last:
                self._compare(rows[-1])
                zxid, mark = rows[0].zxid, zlib.adler32(entry.body)
                self._position = self._position._replace(zxid=zxid, mark=mark)
                await self._tree.append(self._machine, self._changes.take(), rows[0].time, self._position)
                if found.more or not is_last:
                    self._status.behind(self._machine.zxid, len(found.entries) - index - 1)
                size = count = 0

    def _compare(self, row: TransactionRow) -> None:
        """Compare the tree's digest with ZooKeeper's. Raises Failure."""
        if row.digest is None or not self._compares:
            return
        same = compare_digest(self._machine, row.digest)
        if same is Same.NO:
            raise Failure(
                f"{row.file}, byte {row.offset}: behind transaction {row.zxid:#x} the tree has another"
                " digest than ZooKeeper's: it is not the same tree, or this is another ensemble's log."
                " Start over with --overwrite"
            )
        if same is Same.IN_ASCII:
            print_progress(
                "the server's locale is not UTF-8: its digests cannot be compared with each transaction"
            )
            self._compares = False

    async def _finish(self) -> int:
        """The cut-over: a new epoch, as a new leader begins one; sessions end unless they are kept."""
        seconds = self._options.clock.time()
        zxid = epoch_begun_at(seconds, self._machine.zxid)
        now = int(seconds * 1000)
        sessions = len(self._machine.sessions)
        if self._keep_sessions:
            self._changes.move_to(zxid)
        else:
            self._changes.end_sessions(zxid, now)
        self._position = self._position._replace(zxid=zxid)
        request = 0 if self._options.finish else self._answering.revision
        await self._tree.finish(self._machine, self._changes.take(), now, self._position, request)
        what = "kept" if self._keep_sessions else "ended, with their ephemerals"
        show(f"sessions: {sessions} {what}")
        print_finished(self._position)
        self._status.end()
        return DONE
