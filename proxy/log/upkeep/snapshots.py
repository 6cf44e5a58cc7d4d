"""Decides when a snapshot is written and by which proxy, and what is done after it.

A snapshot is due when replaying the log would take about as long as loading the snapshot. `snapshot_writer`
writes it, in a separate process (`run_process`).
"""

import asyncio
import enum
import json
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from proxy.etcd.access import Access
from proxy.etcd.model import EtcdError
from proxy.log.append.pending import Pending
from proxy.log.append.space import in_etcd
from proxy.log.append.syncs import sync_entry
from proxy.log.follow.log_order import EntriesGone
from proxy.log.log import Log
from proxy.log.status import LogStatus, Pressure
from proxy.log.upkeep.deleted_entries import DeletedEntries
from proxy.log.upkeep.snapshot_job import PACE, Answer, DigestAnswer, Failed, Job, Written, answer_of
from proxy.log.upkeep.truncation import applied_in, drop_incarnation, forgettable
from proxy.log.upkeep.turn import Turn
from proxy.options.defaults import SNAPSHOT_BYTES, SNAPSHOT_REQUESTS
from proxy.state.outcome import Disagreement
from proxy.support import probe
from proxy.support.child import end, start
from proxy.support.spawn import Child
from proxy.support.tasks import Tasks
from schema.entry import Kind, encode_forget
from schema.keys import SNAPSHOT_LEASE
from schema.record import SnapshotRef, TreeRecord

log = logging.getLogger(__name__)

_EACH_RANK = 30.0  # seconds that each proxy waits for all that are older
_TICK = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0  # seconds before a failed run is repeated
_NEXT_TRY = 5.0  # seconds, while another tree in this etcd writes one
_SMALLER = 0.8  # of its size at the current snapshot: then the last room is used for another one
_LONGEST_RUN = 3600.0  # seconds that the writer may take
_LOST = Failed(f"the lease {SNAPSHOT_LEASE:x} has run out, by which it was this tree's turn to write one")
_WRITER = "proxy.log.upkeep.snapshot_writer"
_OVERDUE = 900.0  # seconds after which a snapshot that is due is an alarm, and after which that is repeated

#: Runs the snapshot writer.
RunWriter: TypeAlias = Callable[[Job], Coroutine[Any, Any, Answer]]


@dataclass(slots=True)
class SnapshotStats:
    """For metrics. Times are seconds."""

    written: int = 0  # by this proxy
    failed: int = 0
    running: bool = False
    last_seconds: float = 0.0  # that the last one took
    written_at: float = 0.0  # monotonic seconds when the record last named a new one; 0: not in this run


class SnapshotFacts(NamedTuple):
    """One proxy's part in the snapshots of its tree, at one moment; `stats` is live."""

    stats: SnapshotStats
    log_bytes: int = 0  # of the log since the current snapshot
    log_requests: int = 0  # in it, as `Apply.cost` counts them
    overdue: float = 0.0  # for how many seconds a snapshot has been due; 0 if none is


class _Seen(enum.Enum):
    """What has happened since the last count."""

    NOTHING = enum.auto()
    RELOAD = enum.auto()  # the state was loaded anew
    SNAPSHOT = enum.auto()  # the record names another snapshot


class _Totals(NamedTuple):
    """Of the log up to one place, and the tree there."""

    bytes: int
    requests: int
    tree: int  # as `Tree.size`; 0 if it is unknown


class _LogLength:
    """How much of the log is newer than the current snapshot."""

    def __init__(self) -> None:
        self._reloads = -1
        self._base = _Totals(0, 0, 0)  # at the current snapshot
        #: Bytes of the log between the snapshot before and the current one; 0 if that is unknown.
        self.kept = 0
        self._history: deque[tuple[int, _Totals]] = deque(maxlen=3600)  # by position
        self._name = ""  # of the current snapshot

    def since_snapshot(self, status: LogStatus) -> tuple[int, int]:
        """Bytes and requests since the current snapshot."""
        stats = status.stats
        return stats.applied_bytes - self._base.bytes, stats.applied_cost - self._base.requests

    @property
    def tree(self) -> int:
        """The size of the tree at the current snapshot, as `Tree.size`; 0 if it is unknown."""
        return self._base.tree

    def count(self, status: LogStatus, tree: int) -> _Seen:
        """Record the totals and the size of the tree; called about once a second."""
        stats = status.stats
        totals = _Totals(stats.applied_bytes, stats.applied_cost, tree)
        current = status.record.current if status.record else None
        seen = _Seen.NOTHING
        if stats.reloads != self._reloads:
            seen = _Seen.RELOAD
            self._reloads = stats.reloads
            size, requests = status.replayed
            self._base = _Totals(totals.bytes - size, totals.requests - requests, 0)
            self.kept = 0
            self._name = current.name if current else ""
            self._history.clear()
        elif current is not None and current.name != self._name:
            seen = _Seen.SNAPSHOT
            self._name = current.name
            base = self._totals_at(current.position, totals)
            self.kept = base.bytes - self._base.bytes
            self._base = base
        self._history.append((status.position, totals))
        return seen

    def _totals_at(self, wanted: int, totals: _Totals) -> _Totals:
        base = self._base
        for position, then in self._history:
            if position > wanted:
                return base
            base = then
        return base if self._history else totals


class Snapshots:
    """One proxy's part in the snapshots of its tree."""

    def __init__(
        self,
        replicated: Log,
        run_writer: RunWriter,
        look_at_space: Callable[[], Awaitable[bool]],
        *,
        least_bytes: int = SNAPSHOT_BYTES,
        least_requests: int = SNAPSHOT_REQUESTS,
        each_rank: float = _EACH_RANK,
        pace: float = PACE,
    ) -> None:
        """`look_at_space`: have `Log.learned_space` called now; whether etcd has answered.

        `each_rank`: seconds to wait for each older proxy. `pace`: bytes a second that are written.
        """
        self._replicated = replicated
        self._run_writer = run_writer
        self._look_at_space = look_at_space
        self._least = least_bytes, least_requests
        self._each_rank = each_rank
        self._prefix = replicated.context.keys.prefix.decode()
        self._pace = pace
        self._now = replicated.context.environment.clock.monotonic
        self._wanted = False
        self._checking = False
        self._length = _LogLength()
        self._deleted = DeletedEntries(replicated.context)
        self._turn = Turn(replicated.context)
        #: The least room that etcd has had since the current snapshot came; below any room before one does.
        self._least_room = -math.inf
        self._due_since: float | None = None
        self._not_before = 0.0
        self._pause = _FIRST_PAUSE
        self._alarmed: dict[str, float] = {}  # when each alarm was last logged
        self.stats = SnapshotStats()

    # -- what others ask -----------------------------------------------------------------------------------

    @property
    def log_bytes(self) -> int:
        """Bytes of the log since the current snapshot."""
        return self._length.since_snapshot(self._replicated.status())[0]

    @property
    def log_requests(self) -> int:
        """Requests in the log since the current snapshot, as `Apply.cost` counts them."""
        return self._length.since_snapshot(self._replicated.status())[1]

    @property
    def overdue(self) -> float:
        """For how many seconds a snapshot has been due; 0 if none is."""
        return 0.0 if self._due_since is None else self._now() - self._due_since

    def facts(self) -> SnapshotFacts:
        """For operators."""
        return SnapshotFacts(self.stats, self.log_bytes, self.log_requests, self.overdue)

    def want(self) -> None:
        """Write a snapshot soon, however little the log holds."""
        self._wanted = True
        self._not_before = 0.0

    def entries_gone(self, gone: EntriesGone) -> None:
        """Entries that had taken effect were deleted from the log."""
        self._deleted.note(gone)

    async def run(self) -> None:
        """Check every second whether a snapshot is due, and write it, for ever."""
        while True:
            await self._deleted.look(self._replicated.status().record)
            if self.check():
                await self.write_in_turn()
            await asyncio.sleep(_TICK)

    def check(self) -> bool:
        """Count the log. Whether this proxy has to write a snapshot now; an alarm if one is overdue.

        Called about once a second.
        """
        now, status = self._now(), self._replicated.status()
        pressure = status.pressure
        seen = self._length.count(status, self._replicated.machine.tree.size)
        if seen is _Seen.RELOAD:
            self._wanted = self._wanted or status.fell_back
        elif seen is _Seen.SNAPSHOT:
            self.stats.written_at = now
            self._due_since = None
            self._least_room = math.inf
        if pressure is not None:
            self._least_room = min(self._least_room, pressure.room)
        log_bytes, log_requests = self._length.since_snapshot(status)
        if not self._is_worth_it(status, log_bytes, log_requests):
            self._due_since = None
            return False
        if self._due_since is None:
            self._due_since = now
        waited = now - self._due_since
        if waited > _OVERDUE:
            self._alarm(
                "a snapshot has been due for %d s: the log holds %d MB since the last one, and grows."
                " Messages above say why",
                waited,
                log_bytes >> 20,
            )
        if now < self._not_before or status.incarnation not in status.living:
            return False
        if pressure is not None and not (self._is_needed or self._has_room(pressure)):
            self._alarm(
                "no snapshot is written: it may take %d MiB, and etcd has room for %d."
                " Compact etcd, or raise its quota",
                pressure.snapshot >> 20,
                pressure.room >> 20,
            )
            return False
        rank = 0 if self._wanted else status.living.rank(status.incarnation)
        if waited < rank * self._each_rank:
            return False
        if not self._is_needed and not log_requests:
            # Without a new entry no snapshot is written.
            self._replicated.outbox.submit(sync_entry())
            return False
        return True

    @property
    def _is_needed(self) -> bool:
        """Whether one is written even to an etcd that has no room for it."""
        return self._wanted or self._deleted.as_of > 0

    def _alarm(self, message: str, *numbers: float) -> None:
        """Log an error, unless the same one was logged less than _OVERDUE ago."""
        now = self._now()
        if now - self._alarmed.get(message, -_OVERDUE) >= _OVERDUE:
            self._alarmed[message] = now
            log.error(message, *numbers)

    def _is_worth_it(self, status: LogStatus, log_bytes: int, log_requests: int) -> bool:
        record = status.record
        if record is None:
            return False
        current = record.current
        least_bytes = max(self._least[0], current.bytes if current else 0)
        least_requests = max(self._least[1], current.nodes if current else 0)
        if log_bytes >= least_bytes or log_requests >= least_requests or self._is_needed:
            return True
        return status.pressure is not None and self._gives_space(status.pressure, record, log_bytes)

    def _gives_space(self, pressure: Pressure, record: TreeRecord, log_bytes: int) -> bool:
        """Whether snapshots delete enough, which compaction then frees in an etcd that is nearly full.

        The first deletes the one before the current one, and the log up to the current one; the second
        deletes the current one, and the log since then. Each is as large as the current one, as far as the
        tree is. More than two would only take space until etcd compacts: nothing is left that they delete,
        until the tree becomes smaller again or the log longer. In the last room one is judged alone.
        """
        current = record.current.bytes if record.current else 0
        ratio = 1.0 if record.current is None else self._tree_since(record.current)
        first = self._length.kept + (record.previous.bytes if record.previous else 0)
        if pressure.is_last:
            # Each one brings etcd's file nearer to the quota: the first alone has to free more than it takes.
            is_much = first - pressure.snapshot > pressure.worth
            gives = is_much or ratio < _SMALLER or log_bytes > pressure.worth
        else:
            gives = in_etcd(first + current + log_bytes - 2 * ratio * current) > pressure.worth
        gives = gives and self._has_room(pressure)
        if gives:
            probe.current.reached("a snapshot that gives space")
        return gives

    def _tree_since(self, current: SnapshotRef) -> float:
        """The size of the tree, as a multiple of that in the current snapshot."""
        tree, known = self._replicated.machine.tree, self._length.tree
        return tree.size / known if known else len(tree.nodes) / current.nodes

    def _has_room(self, pressure: Pressure) -> bool:
        """Whether a snapshot does not make etcd full.

        To one that is full it may give space back, and another one when etcd has compacted what the last one
        has deleted.
        """
        if self._replicated.outbox.is_full:
            return pressure.room - self._least_room > pressure.worth
        return pressure.room > pressure.snapshot

    # -- the child -----------------------------------------------------------------------------------------

    async def write_in_turn(self) -> None:
        """Write a snapshot; to an etcd that is nearly full when no other tree does, if there is room then."""
        pressure = self._replicated.status().pressure
        if pressure is None or self._is_needed:
            await self._write()
            return
        async with self._turn.taken(self.overdue) as lost:
            # The member that has granted the lease has applied what was written in the turn before.
            if lost is None or not await self._look_at_space():
                self._not_before = self._now() + _NEXT_TRY
            elif self.check():
                await self._write(lost)

    async def _write(self, *lost: "asyncio.Future[None]") -> None:
        """Write a snapshot. `lost`: what ends it, if it is done."""
        status = self._replicated.status()
        wanted, self._wanted = self._wanted, False
        (me,) = [proxy for proxy in status.living if proxy.incarnation == status.incarnation]
        began = self._now()
        job = Job(self._prefix, me.incarnation, me.revision, self._pace, as_of=self._deleted.as_of)
        self.stats.running = True
        writer = Tasks()
        writing = writer.start(self._run_writer(job), "write a snapshot")
        try:
            await asyncio.wait((writing, *lost), return_when=asyncio.FIRST_COMPLETED)
            answer = await writing if writing.done() else _LOST
        finally:
            await writer.close()
            self.stats.running = False
        self.stats.last_seconds = self._now() - began
        if isinstance(answer, Failed):
            self._failed(answer)
            self._wanted = self._wanted or (wanted and (job.as_of > 0 or not answer.is_overtaken))
            self._not_before = self._now() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            return
        self._pause = _FIRST_PAUSE
        if isinstance(answer, Written) and answer.ref is not None:
            self.stats.written += 1
        log.info("snapshot: %s", json.dumps(answer.as_json()))
        await self._forget()

    def _failed(self, answer: Failed) -> None:
        if answer.is_overtaken:
            self._deleted.too_late()
            log.info("no snapshot was written: %s", answer.error)
        elif answer.is_gone:
            log.warning("no snapshot was written: %s. The eldest living proxy writes one", answer.error)
        else:
            self.stats.failed += 1
            log.error("no snapshot was written: %s", answer.error)

    # -- after a snapshot ------------------------------------------------------------------------------------

    async def _forget(self) -> None:
        """Remove from the state the incarnations that are over and truncated."""
        status = self._replicated.status()
        previous = status.record.previous if status.record else None
        if previous is None:
            return
        etcd, keys = self._replicated.context.etcd, self._replicated.context.keys
        try:
            truncated = await applied_in(etcd, keys, previous.name)
            living = {proxy.incarnation for proxy in status.living}
            machine = self._replicated.machine
            over = {name: machine.applied[name] for name in forgettable(machine, living, truncated or {})}
            for incarnation, applied in over.items():
                if await drop_incarnation(etcd, keys, incarnation, applied):
                    log.info("forgetting incarnation %s", incarnation)
                    # One that fails is submitted again after the next snapshot.
                    self._replicated.outbox.submit(Pending(Kind.FORGET, 0, 0, (), encode_forget(incarnation)))
        except EtcdError as error:
            log.warning("cannot drop ended incarnations from the state: %s", error)

    async def judge(self, disagreement: Disagreement) -> bool | None:
        """Find out by a replay whose digest is right; whether it is ours, None if that is unknown.

        If ours is wrong, the tree is loaded anew.
        """
        if self._checking:
            return None
        self._checking = True
        reloads = self._replicated.stats.reloads
        try:
            answer = await self._run_writer(Job(self._prefix, digest_after=disagreement.checkpoint))
        finally:
            self._checking = False
        if self._replicated.stats.reloads != reloads:
            return None  # the state that was in question is gone
        if isinstance(answer, Failed):
            log.error("a replay cannot settle whose digest is wrong: %s", answer.error)
            return None
        assert isinstance(answer, DigestAnswer)
        if answer.digest == disagreement.ours:
            log.error(
                "a replay agrees with this proxy: the state of the proxy %s is wrong",
                disagreement.incarnation,
            )
            return True
        log.critical(
            "a replay of the log comes to the digest %016x after %d entries, and this proxy to %016x:"
            " its state is wrong, and is loaded anew",
            answer.digest,
            disagreement.checkpoint,
            disagreement.ours,
        )
        self._replicated.follower.distrust()
        return False


async def run_process(access: Access, job: Job) -> Answer:
    """Run the snapshot writer as a child process, so that its work does not delay this proxy's clients."""
    config = {**access.as_json(), **job.as_json()}
    try:
        child = await start(_WRITER, config)
    except OSError as error:
        return Failed(str(error))
    try:
        async with asyncio.timeout(_LONGEST_RUN):
            return await _answer(child)
    except TimeoutError:
        return Failed(f"it took more than {_LONGEST_RUN:.0f} s")
    finally:
        await end(child)


async def _answer(child: Child) -> Answer:
    assert child.stdout is not None
    said = await child.stdout.read()
    status = await child.wait()
    try:
        return answer_of(json.loads(said))
    except (KeyError, TypeError, ValueError):
        return Failed(f"the snapshot writer ended with status {status}, without an answer")
