"""The loop that keeps a data directory of ZooKeeper level with a tree of zketcd."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import Failure
from pipeline.folders import named
from pipeline.follow.copy import digest_of
from pipeline.follow.files import Files, Owner
from pipeline.follow.output import DONE, Status, print_progress, within
from pipeline.follow.recording import Recorder, is_jump
from pipeline.follow.retrying import RETRY, retrying
from pipeline.table import TransactionRow
from proxy.etcd.interface import Etcd
from proxy.log.follow.catch_up import Truncated, read_missed
from proxy.log.load.pages import UnusableSnapshot, read_snapshot
from proxy.log.load.replay import Place, Replay
from proxy.log.record import TreeNotServable, look, servable
from proxy.state import capture
from proxy.state.level import KNOWN
from proxy.state.machine import Machine
from proxy.support.tasks import together
from schema.entry import Entry, Request
from schema.keys import Keyspace

_TIMEOUT = 10.0  # seconds
_PIECE = 1000  # at most so many transactions are applied before they are on disk


class Options(NamedTuple):
    """The options of the command line."""

    target: str
    until_level: bool = False
    timeout: float | None = None  # seconds until the directory has to be level
    interval: float = 0.2  # seconds between two reads
    metrics: str | None = None  # a file for the age of the directory


async def mirror(etcd: Etcd, keys: Keyspace, options: Options) -> int:
    """Keep the directory level until stopped, and wait for an etcd out of reach; returns the exit code.

    Raises Failure, EtcdError, OSError.
    """
    try:
        return await within(options.timeout, lambda _limit: _mirror(retrying(etcd), keys, options))
    except TreeNotServable as error:
        raise Failure(str(error)) from error


async def _mirror(etcd: Etcd, keys: Keyspace, options: Options) -> int:
    cluster_id = (await etcd.status(_TIMEOUT)).cluster_id
    files = Files(options.target, Owner(keys.prefix.decode(), cluster_id))
    try:
        return await _Mirroring(etcd, keys, options, files).run()
    finally:
        files.close()


class _Mirroring:
    """One run."""

    def __init__(self, etcd: Etcd, keys: Keyspace, options: Options, files: Files) -> None:
        self._etcd = etcd
        self._keys = keys
        self._options = options
        self._files = files
        self._status = Status(options.metrics)
        self._zxid: int | None = None  # the directory's last
        self._expected: int | None = None  # the directory's digest at that zxid, until it was compared
        self._machine = Machine(0)
        self._recorder = Recorder(self._machine)
        self._position = 0
        # Transactions to write: the state machine's code must not wait for a disk.
        self._rows: list[list[TransactionRow]] = []
        self._written = 0  # transactions, in this step
        self._left = 0  # entries that are read but not yet applied
        self._jumped = False  # only a snapshot can follow the written transactions

    async def run(self) -> int:
        """Run; returns the exit code."""
        options = self._options
        self._zxid = self._files.last_zxid()
        if self._zxid is not None:
            self._expected = digest_of(self._files.tree())
            print_progress(f"{options.target} is at zxid 0x{self._zxid:x}: going on from there")
        await self._load()
        while True:
            try:
                found = await self._step()
            except Truncated as error:
                print_progress(
                    f"the log was truncated before it was read ({error}): going on from a newer snapshot"
                )
                await self._load()
                continue
            # Level with the tree as it was when it was read: while clients write, it always changes.
            self._status.level(self._machine.zxid, now=options.until_level)
            if options.until_level:
                return DONE
            if not found:
                await asyncio.sleep(options.interval)

    async def _load(self) -> None:
        """Load a snapshot from which the log leads to the directory's last zxid; without one, start again."""
        try:
            base = await self._base()
        except Truncated:
            await asyncio.sleep(RETRY)
            return await self._load()
        if base is None:
            print_progress(
                "zketcd's log does not reach back to there: beginning again with a snapshot of now"
            )
            self._zxid = self._expected = None
            return await self._load()
        self._machine, self._position = base
        self._recorder = Recorder(self._machine)
        if self._zxid is None:
            # At once, so that a snapshot precedes the log, whenever this process is killed.
            with named(Path(self._options.target)):
                self._files.write_snapshot(self._machine)
            self._zxid = self._machine.zxid
            print_progress(
                f"wrote a snapshot of {len(self._machine.tree.nodes)} znodes at zxid 0x{self._zxid:x}"
            )
        self._compare()
        return None

    async def _base(self) -> tuple[Machine, int] | None:
        """The newest usable snapshot that is not newer than the directory, and its position."""
        record = servable(await look(self._etcd, self._keys), self._keys, KNOWN)
        for ref in (record.current, record.previous):
            if ref is None or (self._zxid is not None and ref.zxid > self._zxid):
                continue
            try:
                return await read_snapshot(self._etcd, self._keys, ref, lambda _count: None), ref.position
            except UnusableSnapshot as error:
                now = servable(await look(self._etcd, self._keys), self._keys, KNOWN)
                if ref not in (now.current, now.previous):
                    raise Truncated(f"the snapshot {ref.name} was replaced") from error
                print_progress(f"the snapshot {ref.name} cannot be used: {error}")
        if record.current is None:
            return capture.new_machine(record.cluster_id, record.level), 0
        if self._zxid is None:
            raise Failure(f"no snapshot of the tree under {self._keys.prefix.decode()} can be used")
        return None

    async def _step(self) -> int:
        """Apply new entries, piece by piece; returns how many transactions were written.

        Raises Truncated, EtcdError.
        """
        caught = await read_missed(self._etcd, self._keys, self._machine.applied, self._position)
        self._left, self._written = len(caught.entries), 0
        replay = Replay(self._keys, self._machine, caught, self._applied, self._execute)
        is_replayed = False

        async def apply() -> None:
            nonlocal is_replayed
            await replay.run(caught.revision)
            is_replayed = True

        async def write() -> None:
            """Where the replay pauses, every few milliseconds. A run after a kill continues from there."""
            while not is_replayed:
                await asyncio.sleep(0)
                if len(self._rows) >= _PIECE or self._jumped:
                    self._write()
                    self._status.behind(self._machine.zxid, self._left, "entries")

        await together([apply(), write()])
        self._write()
        self._position = caught.revision
        if self._expected is not None:
            raise Failure(
                f"{self._options.target} is at zxid 0x{self._zxid or 0:x}, and the tree at"
                f" 0x{self._machine.zxid:x}: the directory was changed meanwhile (was ZooKeeper started"
                " on it?). Export to an empty directory"
            )
        return self._written

    def _applied(self, entries: int) -> None:
        self._left -= entries

    def _write(self) -> None:
        """Write the applied transactions to disk. Raises OSError."""
        with named(Path(self._options.target)):
            self._put()

    def _put(self) -> None:
        self._written += len(self._rows) + self._jumped
        for rows in self._rows:
            self._files.append(rows)
        self._rows.clear()
        self._files.sync()
        if self._jumped or self._files.wants_snapshot:
            self._files.write_snapshot(self._machine)
        if self._jumped:
            self._zxid, self._jumped = self._machine.zxid, False

    def _execute(self, machine: Machine, _entry: Entry, request: Request, _place: Place) -> None:
        rows = self._recorder.taken(request, machine.execute(request))
        if not rows or self._zxid is None or rows[0].zxid < self._zxid:
            return
        if rows[0].zxid == self._zxid:
            self._compare()
            return
        if self._expected is not None:
            return  # the directory's last transaction was not found: `_step` reports it
        self._jumped = self._jumped or is_jump(request)
        if not self._jumped:
            self._rows.append(rows)
        self._zxid = rows[0].zxid

    def _compare(self) -> None:
        """Compare the directory with the tree, at the directory's last zxid. Raises Failure."""
        if self._expected is None or self._machine.zxid != self._zxid:
            return
        if digest_of(self._machine) != self._expected:
            raise Failure(
                f"{self._options.target} and the tree differ at zxid 0x{self._zxid:x}: the directory holds"
                " another tree (was ZooKeeper started on it?). Export to an empty directory"
            )
        self._expected = None
