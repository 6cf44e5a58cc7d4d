"""Follows the log of a tree, without writing to etcd, and archives it.

It loads the tree as it was where the archive ends, applies the entries since then, and follows with a
watch, as a proxy does. Whatever fails, the store or etcd, it starts again with what the store holds: so a
killed archiver continues in the same way. If the log no longer reaches back to the archive's end, another run
begins: the gap is reported, and the run's snapshot bridges it.
"""

import asyncio
import logging
import math
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

from archive.archiver.retention import Retention
from archive.archiver.stats import Stats
from archive.archiver.writer import RunWriter
from archive.files import container, segment
from archive.files.catalog import ArchiveError, Catalog, Run
from archive.files.names import PREFIX, Point
from archive.files.small_files import decode_prefix, encode_prefix
from archive.files.store import Missing, Store
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.log.follow.catch_up import Loaded
from proxy.log.follow.log_follower import LogFollower, NotContinued
from proxy.log.follow.log_order import Apply, Item, RecordChanged
from proxy.log.load.pages import UnusableSnapshot, read_pages
from proxy.log.load.start import NotInLog, Wanted, load_as_of
from proxy.log.record import TIMEOUT, TreeNotServable, TreeSealed, look
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.state.recording import keep_changes
from proxy.support.environment import HOST, Clock, clock_ms
from proxy.support.tasks import together
from schema.entry import decode_entry
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.pages import decode_state
from schema.record import SnapshotRef, decode_record

log = logging.getLogger(__name__)

_RETRY = 1.0, 30.0  # seconds before it starts again: the first time, and at most
_TURN = 0.02  # seconds that the event loop may be held
_MOST_WAITING = 256 << 20  # bytes of entries that are not applied yet
_LOAD_TIMEOUT = 60.0  # seconds for an etcd that does not answer during a load

# Snapshots that proxies have written, each with the clock of the entries before it, in ms.
_Snapshots = asyncio.Queue[tuple[SnapshotRef, int]]


class _Restart(Exception):
    """Start again with what the archive holds."""


class OtherTree(ArchiveError):
    """The archive belongs to another tree."""

    def __init__(self, there: str, here: str) -> None:
        super().__init__(
            f"the archive has {there}, and this is {here}. Each tree needs an archive of its own. If this is"
            " the same tree, which has moved, run `zketcd archive URL --accept-cluster` once"
        )


class Intervals(NamedTuple):
    """How often an archiver writes, in seconds."""

    put: float = 1.0  # the open segment
    complete: float = 10.0  # up to where the archive is complete, while nothing is written


INTERVALS = Intervals()


class Archiver:
    """Archives one tree."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        store: Store,
        *,
        keep_ms: int = 0,
        accept_cluster: bool = False,
        stats: Stats | None = None,
        clock: Clock = HOST.clock,
        intervals: Intervals = INTERVALS,
    ) -> None:
        """`keep_ms`: delete what is older; 0: nothing. `accept_cluster`: the tree moved to another etcd
        or prefix."""
        self._etcd = etcd
        self._keys = keys
        self._store = store
        self._accept_cluster = accept_cluster
        self.stats = Stats() if stats is None else stats
        self._clock = clock
        self._intervals = intervals
        self._retention = Retention(store, keep_ms, clock)
        self._run = ""  # that this process has written last

    async def run(self) -> None:
        """Archive for ever, or up to the seal of a tree that has moved. Raises OtherTree."""
        pause = _RETRY[0]
        while True:
            began = self._clock.monotonic()
            try:
                await self._once()
            except (_Restart, NotContinued) as error:
                log.warning("starting again: %s", error)
            except OtherTree:
                raise
            except TreeSealed as error:
                log.info("the tree is sealed: everything up to position %d is archived", error.position)
                return
            except (ArchiveError, EtcdError, TreeNotServable, BadValue) as error:
                self.stats.errors += 1
                log.error("%s: trying again with what the archive holds", error)
            if self._clock.monotonic() - began > 60:
                pause = _RETRY[0]
            self.stats.write()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _RETRY[1])

    async def _once(self) -> None:
        catalog = Catalog(await asyncio.to_thread(self._store.list))
        if self._run > max((run.name for run in catalog.runs), default=""):
            raise ArchiveError(f"the store's list lacks the run {self._run}, which this process has written")
        await asyncio.to_thread(self._store.tidy)
        await asyncio.to_thread(self._retention.begin, catalog)
        loaded, run, start = await _Beginning(self, catalog).resume()
        self._run = run
        await asyncio.to_thread(self._store.put, f"{run}/{PREFIX}", encode_prefix(self._keys.prefix))
        await _Attempt(self, loaded, run, start).run()


class _Beginning:
    """Finds out where to continue."""

    def __init__(self, archiver: Archiver, catalog: Catalog) -> None:
        self._archiver = archiver
        self._etcd, self._keys, self._store = archiver._etcd, archiver._keys, archiver._store
        self._catalog = catalog
        self._is_damaged = False

    async def resume(self) -> tuple[Loaded, str, Point]:
        """The state where the archive ends, or where a new run begins; its run and its point."""
        cluster = (await self._etcd.status(TIMEOUT)).cluster_id
        last = self._catalog.runs[-1] if self._catalog.runs else None
        moved = last is not None and await asyncio.to_thread(self._has_other_prefix, last)
        if last is not None and last.cluster == cluster and not moved:
            loaded = await self._continued(last)
            if loaded is not None:
                log.info("continuing after %d entries, zxid 0x%x", last.end.entries, last.end.zxid)
                return loaded, last.name, last.end
        return await self._new(last, cluster)

    def _has_other_prefix(self, run: Run) -> bool:
        """Whether the run's tree was under another prefix. Raises OtherTree if that is not accepted."""
        ours = self._keys.prefix
        name = f"{run.name}/{PREFIX}"
        try:
            prefix = decode_prefix(self._store.get(name))
        except Missing:  # an archiver was killed after the run's snapshot
            prefix = ours
        except BadValue as error:
            log.error("%s is damaged, and is written again: %s", name, error)
            prefix = ours
        if prefix != ours and not self._archiver._accept_cluster:
            raise OtherTree(f"the tree under {prefix.decode()}", ours.decode())
        return prefix != ours

    async def _continued(self, run: Run) -> Loaded | None:
        """The state at the run's end, if the log has it and it is the same."""
        try:
            digest = await asyncio.to_thread(self._digest, run)
        except BadValue as error:
            log.error("the last run of the archive is damaged, and not continued: %s", error)
            self._is_damaged = True
            return None
        try:
            loaded = await self._load(Wanted(entries=run.end.entries))
        except NotInLog as error:
            log.error("the archive cannot be continued after %d entries: %s", run.end.entries, error)
            return None
        machine = loaded.machine
        if machine.entries == run.end.entries and machine.digest.settle(machine.tree.nodes) == digest:
            return loaded
        log.error("the tree is not the one that was archived: etcd was restored from a backup")
        return None

    def _digest(self, run: Run) -> int:
        """Of the state at the run's end. Raises BadValue, StoreError."""
        if run.holes:
            first, last = run.holes[0]
            raise BadValue(f"the segments with the entries {first + 1} to {last} are missing")
        if not run.segments:
            return container.decode(self._store.get(run.path(run.snapshots[-1]))).digest
        newest = run.segments[-1]
        name = run.path(newest)
        try:
            return segment.load(newest, self._store.get(name)).digest
        except BadValue as error:
            raise BadValue(f"{name}: {error}") from error

    async def _new(self, last: Run | None, cluster: int) -> tuple[Loaded, str, Point]:
        found = await look(self._etcd, self._keys)
        current = None if found.record is None else found.record.current
        # The oldest state that surely is there: everything since it is archived as well.
        loaded = await self._load(Wanted(upto=1 if current is None else current.position))
        machine = loaded.machine
        known = (cluster, machine.cluster_id)
        if last is not None and last.cluster not in known and not self._archiver._accept_cluster:
            raise OtherTree(f"a tree of the etcd cluster {last.cluster:016x}", f"{cluster:016x}")
        now = int(self._archiver._clock.time() * 1000)
        entries = loaded.caught.entries
        clock = min([now, *(decode_entry(kv.value).clock for kv in entries[:1])]) if machine.entries else 0
        start = Point(machine.entries, 0 if current is None else current.position, machine.zxid, clock)
        # Runs follow each other by their names, also if the clock was ahead when the last one began.
        first = now if last is None else max(now, last.begun + 1000)
        begun = datetime.fromtimestamp(first / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        name = f"{begun}Z-{cluster:016x}"
        if last is not None and start.entries <= last.end.entries:
            log.warning(
                "%s: another run begins after %d entries, zxid 0x%x."
                " What the former one has stays in the archive, up to %d entries, zxid 0x%x",
                "the archive is damaged" if self._is_damaged else "etcd was restored from a backup",
                start.entries,
                start.zxid,
                last.end.entries,
                last.end.zxid,
            )
        elif last is not None:
            self._archiver.stats.gaps += 1
            self._archiver.stats.gap = now / 1000
            log.error(
                "a gap: the archive ends after %d entries, zxid 0x%x, and begins again after %d, zxid 0x%x",
                last.end.entries,
                last.end.zxid,
                start.entries,
                start.zxid,
            )
        writer = RunWriter(self._store, name, start)
        await writer.snapshot(start, await asyncio.to_thread(container.captured, machine))
        return loaded, name, start

    async def _load(self, wanted: Wanted) -> Loaded:
        return await load_as_of(self._etcd, self._keys, wanted, timeout=_LOAD_TIMEOUT, even_sealed=True)


class _Attempt:
    """Archives from a loaded state on, until something fails. The consumer of what is followed."""

    def __init__(self, archiver: Archiver, loaded: Loaded, run: str, start: Point) -> None:
        self._archiver = archiver
        self._stats = archiver.stats
        self._clock = archiver._clock
        self._machine: Machine = loaded.machine
        self._loaded = loaded
        self._changes = keep_changes(self._machine)
        self._writer = RunWriter(archiver._store, run, start)
        self._begin = start.entries
        self._newest = start.position  # of the newest snapshot that is archived, or will be
        self._point = start
        self._queue: deque[Item] = deque()
        self._waiting = 0  # bytes in the queue
        self._arrived = asyncio.Event()
        self._follower = LogFollower(
            archiver._etcd, archiver._keys, self._machine, consumer=self, clock=self._clock
        )
        self._sealed: TreeSealed | None = None  # nothing arrives any more

    async def run(self) -> None:
        """Raises what ends it: TreeSealed once everything before the seal is archived."""
        items = await self._follower.continue_from(self._loaded)
        self._loaded = self._loaded._replace(caught=self._loaded.caught._replace(entries=[]))
        self.deliver(items)
        snapshots: _Snapshots = asyncio.Queue()
        await together([self._arrivals(), self._work(snapshots), self._archive(snapshots), self._expire()])

    async def _arrivals(self) -> None:
        """Follow the log for ever, or up to its seal."""
        try:
            await self._follower.run()
        except TreeSealed as error:
            self._sealed = error
            self._arrived.set()

    # -- the consumer ----------------------------------------------------------------------------------------

    def deliver(self, items: list[Item]) -> None:
        """Let items take effect soon."""
        if not self._queue:
            self._follower.order.retain(self._machine.applied, items)
        self._queue.extend(items)
        self._waiting += sum(len(item.value) for item in items if isinstance(item, Apply))
        if self._waiting > _MOST_WAITING:
            raise _Restart("entries arrive faster than the store takes them")
        self._arrived.set()

    def stopped_serving(self, reason: str) -> None:
        """What is applied may be old; it is archived nevertheless."""
        log.warning("the archive is behind: %s", reason)

    # -- applying and writing --------------------------------------------------------------------------------

    async def _work(self, snapshots: _Snapshots) -> None:
        flushed = completed = -float("inf")
        intervals = self._archiver._intervals
        while True:
            now = self._clock.monotonic()
            wait = flushed + intervals.put - now if self._writer.pending else intervals.put
            if not self._queue and wait > 0 and self._sealed is None:
                self._arrived.clear()
                try:
                    async with asyncio.timeout(wait):
                        await self._arrived.wait()
                except TimeoutError:
                    pass
            sealed = self._sealed  # everything before that is in the queue
            await self._apply(snapshots)
            if sealed is not None:
                if self._writer.pending:
                    await self._flush()
                at = max(sealed.position, self._point.position)
                await self._writer.complete(self._point._replace(position=at))
                raise sealed
            now = self._clock.monotonic()
            known = self._known()
            if now - flushed >= intervals.put and self._writer.pending:
                await self._flush()
                flushed = now
            if not self._writer.pending:
                self._stats.complete = known.clock / 1000
                if now - completed >= intervals.complete and math.isfinite(self._follower.staleness.age):
                    await self._writer.complete(known)
                    completed = now
            self._stats.pending = self._waiting + self._writer.pending
            self._stats.write()

    def _known(self) -> Point:
        """Everything up to this point is applied: etcd had nothing more when it was asked last."""
        age = self._follower.staleness.age
        clock = int((self._clock.time() - age) * 1000) if math.isfinite(age) else 0
        return self._point._replace(
            clock=max(clock, self._point.clock),
            position=max(self._point.position, self._follower.order.revision),
        )

    async def _apply(self, snapshots: _Snapshots) -> None:
        """Apply all that has arrived."""
        turn = self._clock.perf_counter() + _TURN
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, Apply):
                self._waiting -= len(item.value)
                self._apply_entry(item)
            elif isinstance(item, RecordChanged) and item.value is not None:
                current = decode_record(item.value).current
                if current is not None and current.position > self._newest:
                    self._newest = current.position
                    snapshots.put_nowait((current, self._point.clock))
            if self._writer.pending and self._writer.is_full:
                await self._flush()
            elif self._clock.perf_counter() > turn:
                await asyncio.sleep(0)
                turn = self._clock.perf_counter() + _TURN

    def _apply_entry(self, item: Apply) -> None:
        machine, point = self._machine, self._point
        entry = item.decode()
        disagreement = machine.begin(
            item.incarnation, item.number, entry.clock, entry.rules, entry.checkpoint, entry.digest
        )
        if disagreement is not None:
            self._stats.errors += 1
            log.error(
                "the digest of %s differs from the archived state's: %s", item.incarnation, disagreement
            )
        changes = self._changes
        for index, request in enumerate(entry.requests):
            try:
                machine.execute(request)
            except UnknownLevel as error:
                raise TreeNotServable(f"entry {item.number} of {item.incarnation}: {error}") from error
            for recorded in changes:
                self._writer.change(index, machine.zxid, recorded)
            changes.clear()
        machine.end()
        # A proxy whose clock is ahead does not take the archive there: all since would have its time.
        clock = max(point.clock, min(entry.clock, clock_ms(self._clock)))
        self._point = Point(machine.entries, max(item.position, point.position), machine.zxid, clock)
        self._writer.entry(item, clock)

    async def _flush(self) -> None:
        digest = self._machine.digest.settle(self._machine.tree.nodes)
        self._stats.bytes += await self._writer.flush(self._point, digest)
        self._stats.entries = self._point.entries
        self._stats.uploaded = self._clock.time()

    async def _archive(self, snapshots: _Snapshots) -> None:
        """Archive the snapshots that proxies have written."""
        while True:
            ref, clock = await snapshots.get()
            try:
                found = await read_pages(self._archiver._etcd, self._archiver._keys, ref)
                entries = decode_state(found.state).entries
            except (UnusableSnapshot, BadValue) as error:
                log.warning("the snapshot %s is not archived: %s", ref.name, error)
                continue
            if entries > self._begin:
                at = Point(entries, ref.position, ref.zxid, clock)
                pages = container.Pages(found.nodes, found.sessions, found.state, ref.digest)
                await self._writer.snapshot(at, pages)

    async def _expire(self) -> None:
        retention = self._archiver._retention
        while True:
            await asyncio.sleep(retention.wait())
            await asyncio.to_thread(retention.run)
