"""Loads a tree from etcd: the newest usable snapshot, then the log since it.

A starting proxy, and one that fell behind, load to serve. The writer of snapshots, the archive, the pipeline
and the commands of `ctl` load to look at the tree as of some moment.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from proxy.etcd.interface import Etcd, Reads
from proxy.etcd.model import EtcdError, EtcdRefused, KeyValue, RefusalKind
from proxy.log import record as tree_record
from proxy.log.follow.catch_up import Caught, Loaded, Truncated, read_missed
from proxy.log.load.pages import UnusableSnapshot, read_snapshot
from proxy.log.load.replay import Execute, Replay
from proxy.log.reads import MonotonicReads
from proxy.log.record import TIMEOUT, Look, TreeNotServable, look, servable, unknown_level
from proxy.state import capture
from proxy.state.level import KNOWN, OF_NEW_TREES, UnknownLevel
from proxy.state.machine import Machine
from proxy.support import probe
from proxy.support.throttled_log import ThrottledLog
from schema.entry import Kind, decode_entry, decode_level
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.record import SnapshotRef, TreeRecord, is_incomplete_with_pages

log = logging.getLogger(__name__)

_RETRY = 0.2  # seconds before a load that failed is tried again


class Wanted(NamedTuple):
    """Which state to load: the current one, or an older one, as far as the log reaches back."""

    upto: int = 0  # as of this etcd revision
    entries: int | None = None  # as it was after so many entries in all
    previous: bool = False  # starting from the previous snapshot
    since: int = 0  # starting from the state as of this etcd revision, or an older one


NOW = Wanted()


class NotInLog(TreeNotServable):
    """The log does not reach back to the state that is wanted."""


async def load_to_serve(
    etcd: Etcd,
    keys: Keyspace,
    levels: Collection[int] = KNOWN,
    *,
    make: bool = True,
    even_copy: bool = False,
    progress: Callable[[int], None] | None = None,
    timeout: float | None = None,
) -> Loaded:
    """Load the current state, retrying failures of etcd for ever, or for `timeout` seconds.

    `make`: make a tree where there is none. `even_copy`: also a copy, to be read only. `progress` gets the
    number of znodes and entries about once a second. Raises TreeNotServable, EtcdRefused where etcd refuses
    for certain, as without access, and EtcdError after the timeout.
    """
    record_of = partial(servable, keys=keys, levels=levels, even_copy=even_copy)

    def one_try() -> _Load:
        return _Load(etcd, keys, record_of, levels, make=make, progress=progress)

    return await _retried(one_try, timeout)


async def load_as_of(
    etcd: Reads,
    keys: Keyspace,
    wanted: Wanted = NOW,
    *,
    timeout: float | None = None,
    even_sealed: bool = False,
    even_copy: bool = False,
    executes: Callable[[], Execute] | None = None,
) -> Loaded:
    """Load a state to look at it; retried as by `load_to_serve`, which says what is raised.

    `even_sealed`: also a sealed tree, as of its seal. `even_copy`: also a copy.
    `executes` is called once for each try; its result executes the log's requests. Raises NotInLog where the
    log does not reach back so far.
    """
    record_of = partial(servable, keys=keys, levels=KNOWN, even_sealed=even_sealed, even_copy=even_copy)

    def one_try() -> _Load:
        return _Load(
            etcd, keys, record_of, KNOWN, wanted=wanted, execute=None if executes is None else executes()
        )

    return await _retried(one_try, timeout)


async def _retried(one_try: Callable[[], "_Load"], timeout: float | None) -> Loaded:
    throttled_log = ThrottledLog(log)
    now = asyncio.get_running_loop().time
    deadline = None if timeout is None else now() + timeout
    while True:
        try:
            return await one_try().run()
        except Truncated as overtaken:
            log.info("truncation overtook the load (%s); loading again", overtaken)
            await asyncio.sleep(_RETRY)
        except EtcdError as error:
            if isinstance(error, EtcdRefused) and error.kind is not RefusalKind.COMPACTED:
                raise
            if deadline is not None and now() > deadline:
                raise
            throttled_log.warn("loading the tree failed (%s); trying again", error)
            await asyncio.sleep(_RETRY)


class _Load:
    """One try."""

    def __init__(
        self,
        etcd: Reads,
        keys: Keyspace,
        record_of: Callable[[Look], TreeRecord],
        levels: Collection[int],
        *,
        make: bool = False,
        progress: Callable[[int], None] | None = None,
        wanted: Wanted = NOW,
        execute: Execute | None = None,
    ) -> None:
        """`record_of`: the record, if the tree may be loaded; else it raises TreeNotServable."""
        self._etcd = MonotonicReads(etcd)
        self._keys = keys
        self._record_of = record_of
        self._levels = levels
        self._make = make
        self._progress = progress
        self._wanted = wanted
        self._execute = execute
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._reported = self._loop.time()

    async def run(self) -> Loaded:
        """Raises Truncated, EtcdError, TreeNotServable."""
        cluster_id = (await self._etcd.status(TIMEOUT)).cluster_id
        found = await look(self._etcd, self._keys)
        if found.record is None and self._make:
            await tree_record.create(self._etcd, self._keys, OF_NEW_TREES)
            found = await look(self._etcd, self._keys)
        record = self._record_of(found)
        machine, base = await self._base(record)
        fell_back = not self._wants_old() and base != record.current
        applied = machine.applied if machine else {}
        caught = await read_missed(
            self._etcd,
            self._keys,
            applied,
            base.position if base else 0,
            copied=record.current if is_incomplete_with_pages(record) else None,
        )
        # A newer record than the first may have raised the level.
        self._record_of(await look(self._etcd, self._keys))
        machine = machine or self._new_machine(caught)
        replay = Replay(self._keys, machine, caught, self._report, self._execute)
        lost = record.current
        if fell_back and lost is not None:
            await replay.run(lost.position)
            self._confirm(machine, base, lost)
        elif base is None and lost is not None:
            # An older state is wanted. The log of an imported tree does not begin with an empty one.
            whole = self._new_machine(caught)
            await Replay(self._keys, whole, caught, self._report).run(lost.position)
            if whole.compute_digest() != lost.digest:
                raise self._no_base(record)
        await replay.run(self._wanted.upto or caught.revision, self._wanted.entries)
        if machine.entries < (self._wanted.entries or 0):
            raise NotInLog(f"the log has {machine.entries} entries so far, not {self._wanted.entries}")
        return Loaded(
            machine=machine,
            caught=caught._replace(entries=replay.rest()),
            base=base,
            fell_back=fell_back,
            cluster_id=cluster_id,
            log_bytes=replay.bytes,
            log_requests=replay.requests,
            disagreements=tuple(replay.disagreements),
        )

    def _wants_old(self) -> bool:
        return self._wanted != NOW

    async def _base(self, record: TreeRecord) -> tuple[Machine, SnapshotRef] | tuple[None, None]:
        """The newest usable snapshot; None if the log begins with an empty tree."""
        wanted = self._wanted
        refs = [record.previous] if wanted.previous else [record.current, record.previous]
        for ref in refs:
            if ref is None or ref.position > (wanted.since or wanted.upto or ref.position):
                continue
            try:
                machine = await read_snapshot(self._etcd, self._keys, ref, self._report)
            except UnusableSnapshot as error:
                await self._check_named(ref)
                log.error("the snapshot %s cannot be used: %s", ref.name, error)
                continue
            except UnknownLevel as error:
                raise TreeNotServable(
                    unknown_level(self._keys.prefix.decode(), error.level, self._levels)
                ) from error
            if wanted.entries is not None and machine.entries > wanted.entries:
                continue
            return machine, ref
        if record.previous is not None:
            raise self._no_base(record)
        # Nothing was truncated yet. The log of an imported tree is not complete, which `_confirm` finds out.
        return None, None

    def _new_machine(self, caught: Caught) -> Machine:
        """The empty tree with which the log begins."""
        record = caught.record
        raised = [level for kv in caught.entries for level in self._raised_to(kv)]
        return capture.new_machine(record.cluster_id, min(raised) - 1 if raised else record.level)

    def _raised_to(self, entry: KeyValue) -> list[int]:
        """The levels to which an entry raises the tree, one after another.

        Such an entry is the first and only one of a command (`ctl.visitor`).
        """
        try:
            if self._keys.parse(entry.key).number != 1:
                return []
            requests = decode_entry(entry.value).requests
            return [decode_level(each.body).level for each in requests if each.kind == Kind.LEVEL]
        except BadValue:
            return []  # the replay says what is wrong

    def _no_base(self, record: TreeRecord) -> TreeNotServable:
        prefix = self._keys.prefix.decode()
        if self._wants_old():
            oldest = record.previous or record.current
            assert oldest is not None
            return NotInLog(f"the log under {prefix} reaches back to position {oldest.position} only")
        return TreeNotServable(
            f"neither snapshot of the tree under {prefix} can be used (see the errors above)."
            " Restore etcd from a backup"
        )

    async def _check_named(self, ref: SnapshotRef) -> None:
        """Raise Truncated if the record no longer names a snapshot: then its pages may have been deleted."""
        record = (await look(self._etcd, self._keys)).record
        if record is None or ref not in (record.current, record.previous):
            raise Truncated(f"the snapshot {ref.name} was replaced")

    def _confirm(self, machine: Machine, base: SnapshotRef | None, lost: SnapshotRef) -> None:
        """Compare a state loaded without the current snapshot with what the record says of that snapshot."""
        if base is not None:
            probe.current.reached("a fallback to the previous snapshot")
        same = machine.compute_digest() == lost.digest and machine.zxid == lost.zxid
        if same:
            log.error("the tree was loaded without the snapshot %s; digest and zxid are right", lost.name)
        elif base is None:
            raise TreeNotServable(
                f"the snapshot {lost.name} of the tree under {self._keys.prefix.decode()} cannot be used (see"
                " the errors above), and the log does not hold all that was in it. Import the tree again, or"
                " restore etcd from a backup"
            )
        else:
            log.error(
                "the tree was loaded from the snapshot %s; its digest and zxid are not those of the unusable"
                " snapshot %s",
                base.name,
                lost.name,
            )

    def _report(self, more: int) -> None:
        """Report the progress about once a second: so many znodes or entries more."""
        self._count += more
        now = self._loop.time()
        if self._progress is not None and now - self._reported > 1:
            self._reported = now
            self._progress(self._count)
