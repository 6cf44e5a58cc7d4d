"""The loop that keeps a tree in etcd level with another zketcd's.

The source's entries are applied to the source's state, whose recorder says what they have changed. That goes
into the copy's log, together with the place in the source's log. So whichever process is killed, the copy is
at that place. The follower then compares the copy with the source's state at that very place, and goes on.

The move: the source is sealed (docs/decisions/0048), the copy gets all that lies before the seal, and is
complete. A follower that finds its source sealed for its copy does the rest, whoever has sealed it.

Over a long link the follower does not wait for etcd: it applies what the next entry will hold while one entry
is on its way. There is only one, so that those in etcd are never out of order.
"""

import asyncio
import math
import time
from collections.abc import Container
from typing import NamedTuple

from archive.files.catalog import ArchiveError
from cli.output import show
from pipeline.errors import Failure
from pipeline.follow import target
from pipeline.follow.changed import Changed
from pipeline.follow.copy import Copy, digest_of, kept_of, new_of
from pipeline.follow.finishing import Answering, Asked, finished_by_another, print_finished
from pipeline.follow.options import Options
from pipeline.follow.output import DONE, Status, print_progress, within
from pipeline.follow.retrying import RETRY, retrying
from pipeline.follow.source import Again, Arrived, NotThere, OtherSource, Reading, Source
from pipeline.follow.target import Held, Origin, Position, TakenOver, TargetTree, TooLarge, position_of
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Txn
from proxy.log.record import TreeNotServable, TreeSealed, unknown_level
from proxy.state.level import KNOWN, UnknownLevel
from proxy.state.machine import Machine
from proxy.state.outcome import CarriedOver
from proxy.state.recording import Recorded, What, keep_changes
from proxy.support.environment import clock_ms
from proxy.support.tasks import together
from schema.followed import Sign
from schema.keys import Keyspace
from schema.record import Seal

_ENTRY_BYTES = 768 << 10  # of an entry of the copy; or half of what etcd takes in a request
_CHANGE_BYTES = 100  # of a change, without path and data
_TURN = 0.02  # seconds that the event loop may be held
_WHOLE_EVERY = 60.0  # seconds between two bases that are written for changes that no entry holds
_ASK_EVERY = 0.5  # seconds between two looks for the request to finish
# The source is sealed only when so little is left that clients wait for a moment.
_SEAL_BEHIND = 2000  # requests
_SEAL_AGE = 3.0  # seconds


class _Done(Exception):
    """Nothing is left to do."""


async def follow(source: Source, etcd: Etcd, keys: Keyspace, options: Options) -> int:
    """Follow until stopped, and wait for an etcd that is out of reach; returns the exit code.

    Raises Failure, EtcdError, OSError.
    """
    return await within(
        options.timeout, lambda limit: _Standby(source, retrying(etcd), keys, options, limit).run()
    )


class _Run(NamedTuple):
    """The source's reader, and the copy at the same place."""

    reading: Reading
    tree: TargetTree
    copy: Copy
    position: Position


class _Standby:
    """One run of the command."""

    def __init__(
        self, source: Source, etcd: Etcd, keys: Keyspace, options: Options, limit: asyncio.Timeout
    ) -> None:
        self._source = source
        self._etcd = etcd
        self._keys = keys
        self._options = options
        self._overwrite = options.overwrite
        self._status = Status(options.metrics)
        self._wrong: set[str] = set()  # the source's proxies whose digests are wrong
        self._finishing = _Finishing(etcd, keys, options, limit)

    async def run(self) -> int:
        """Returns the exit code."""
        there = await self._position()
        if there is not None and self._options.finish:
            if there.finished:
                print_finished(there, self._options.zxid)
                return DONE
            request = Asked(self._options.zxid, keep_sessions=True, answered=False)
            if await finished_by_another(self._etcd, self._keys, there, request, self._options.answer_within):
                return DONE
        while True:
            held: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
            tasks = [self._work(held)]
            if self._options.standby_within:
                tasks.append(self._vouch(held, self._options.standby_within))
            try:
                await together(tasks)
            except _Done:
                return DONE
            except TakenOver:
                self._status.end()
                raise
            except Again as error:
                print_progress(f"{error}: going on from what is in etcd")
                await asyncio.sleep(RETRY)
            except (TreeNotServable, ArchiveError) as error:
                raise Failure(f"{self._source.name}: {error}") from error

    async def _work(self, held: asyncio.Future[Held]) -> None:
        """Raises _Done, Again, Failure, EtcdError."""
        begun = await self._open(held)
        work = _Work(begun, self._source, self._finishing, self._status, self._wrong)
        await together([begun.reading.run(), work.run()])

    async def _vouch(self, held: asyncio.Future[Held], within: int) -> None:
        """Show the source's proxies that this follower holds the copy, also while it loads."""
        tree, position = await held
        assert position.origin is not None
        sign = Sign(within, 0, tree.cluster_id, self._keys.prefix.decode())
        await self._source.vouch(position.origin, sign, lambda: tree.allow(within))

    async def _position(self) -> Position | None:
        """How far the copy is; None: it has to begin. Raises Failure if it is the copy of a ZooKeeper."""
        there = None if self._overwrite else await position_of(self._etcd, self._keys)
        if there is not None and there.origin is None:
            raise Failure(
                f"{self._keys.prefix.decode()} follows the ZooKeeper of {there.source}. Start over with"
                " --overwrite"
            )
        return there

    async def _open(self, held: asyncio.Future[Held]) -> _Run:
        there = await self._position()
        if there is None:
            begun = await self._begin()
            held.set_result(Held(begun.tree, begun.position))
            return begun
        if there.finished:
            raise Failure(
                f"{self._keys.prefix.decode()} has finished following, at zxid {there.zxid:#x}, and may be"
                " served"
            )
        return await self._go_on(held)

    async def _begin(self) -> _Run:
        opened: list[Reading] = []

        async def make(cluster_id: int) -> tuple[Machine, Position]:
            opened[:] = [await self._source.open(None, None)]
            machine = opened[0].machine
            print_progress(f"loaded {len(machine.tree.nodes)} znodes at zxid 0x{machine.zxid:x}")
            copy = Copy(machine, cluster_id, new_of(machine))
            return copy, _position(self._source, opened[0], clock_ms())

        begun = await target.begin(
            self._etcd,
            self._keys,
            make,
            self._options.limits,
            overwrite=self._overwrite,
            progress=print_progress,
            read_metrics=self._options.read_metrics,
        )
        self._overwrite = False
        assert isinstance(begun.machine, Copy)
        return _Run(opened[0], begun.tree, begun.machine, begun.position)

    async def _go_on(self, held: asyncio.Future[Held]) -> _Run:
        """Continue a copy: only where the source's state, at the copy's place, is the copy's own."""
        tree, stored, position = await target.resume(
            self._etcd, self._keys, self._options.limits, held=held.set_result
        )
        origin = position.origin
        assert origin is not None
        cluster_id, kept, digest = stored.cluster_id, kept_of(stored), digest_of(stored)
        del stored  # the source's state takes its place in memory
        reason = ""
        try:
            reading = await self._source.open(origin.entries, origin)
        except NotThere as error:
            reason = str(error)
            reading = await self._source.open(None, origin)
        machine = reading.machine
        same = (machine.zxid, digest_of(machine)) == (position.zxid, digest)
        same = same and machine.sessions.keys() == {session.id for session in kept.sessions}
        if same or not reason:
            if not same:
                raise OtherSource(
                    f"{self._source.name} after {origin.entries} entries is not the tree that the copy has at"
                    f" zxid {position.zxid:#x}: it was restored from a backup, or it is another tree. Start"
                    " over with --overwrite"
                )
            print_progress(f"going on behind zxid 0x{position.zxid:x}, where it was")
            if reading.prefix:  # the copy may have followed an archive
                position = position._replace(origin=origin._replace(prefix=reading.prefix))
            return _Run(reading, tree, Copy(machine, cluster_id, kept), position)
        if machine.entries < origin.entries or machine.zxid <= position.zxid:
            raise OtherSource(
                f"{self._source.name} ends after {machine.entries} entries, at zxid {machine.zxid:#x}; the"
                f" copy has {origin.entries}, and zxid {position.zxid:#x}. Either the source is late (an"
                " archive): run the command again; or it was restored from a backup: start over with"
                " --overwrite"
            )
        print_progress(f"{reason}: loading all {len(machine.tree.nodes)} znodes anew")
        copy = Copy(machine, cluster_id, new_of(machine, kept))
        position = _position(self._source, reading, origin.clock)._replace(base=position.base)
        return _Run(reading, tree, copy, await tree.rebase(copy, position))


def _position(source: Source, reading: Reading, clock: int) -> Position:
    machine = reading.machine
    origin = Origin(reading.cluster_id, reading.prefix, machine.entries, clock)
    return Position("", machine.zxid, None, source.name, False, origin)


class _Finishing:
    """Whether the copy has to be completed, and what the source is sealed with."""

    def __init__(self, etcd: Etcd, keys: Keyspace, options: Options, limit: asyncio.Timeout) -> None:
        self.options = options
        self._limit = limit
        self._prefix = keys.prefix.decode()
        self._answering = Answering(etcd, keys)
        self._asked = -_ASK_EVERY
        self._request: Asked | None = None

    async def look(self, *, at_once: bool = False) -> None:
        """Look for a request, from time to time or `at_once`. Raises EtcdError."""
        now = time.monotonic()
        if not self.options.finish and (at_once or now - self._asked >= _ASK_EVERY):
            self._asked = now
            self._request = await self._answering.wanted()

    @property
    def wanted(self) -> int | None:
        """The zxid at which to finish, at least; None: no request yet."""
        if self.options.finish:
            return self.options.zxid
        return None if self._request is None else self._request.zxid

    def begin(self) -> None:
        """The source serves nobody from now on: complete the copy, however long it takes."""
        self._limit.reschedule(None)

    def seal(self, cluster_id: int) -> Seal:
        """The seal that leads to the copy in this cluster."""
        return Seal(self.options.address, self._prefix, cluster_id, clock_ms())


class _Lag:
    """How far the copy is behind the source, while no entry is on its way."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.applied = 0  # requests that no entry has yet
        self._written = 0  # requests that entries have
        self._level_at: float | None = None  # Unix time of a state of the source that the copy has
        self._next: tuple[float, int] | None = None  # of a later one, and what `_written` has to be for it

    def write(self) -> None:
        """What was applied is in an entry."""
        self._written += self.applied
        self.applied = 0

    @property
    def requests(self) -> int:
        """Requests that the source is known to have, and that the copy lacks."""
        return self.applied + self._reading.behind

    @property
    def is_any(self) -> bool:
        """Whether anything has arrived that the copy lacks."""
        return bool(self.applied) or self._reading.has_more

    def age(self) -> float | None:
        """The copy has what the source had so many seconds ago; None: unknown."""
        if self._next is not None and self._written >= self._next[1]:
            self._level_at, self._next = self._next[0], None
        at, arrived = self._reading.level_at(), self.applied + self._reading.waiting
        if at is not None and not arrived:
            self._level_at, self._next = at, None
        elif at is not None and self._next is None:
            self._next = at, self._written + arrived
        return None if self._level_at is None else max(0.0, time.time() - self._level_at)


class _Work:
    """Takes what the source's reader has, and writes the copy's entries."""

    def __init__(
        self, begun: _Run, source: Source, finishing: _Finishing, status: Status, wrong: set[str]
    ) -> None:
        self._reading, self._tree, self._copy, self._position = begun
        self._source = source
        self._finishing = finishing
        self._status = status
        self._wrong = wrong
        self._machine = self._reading.machine
        self._recorded = keep_changes(self._machine)
        self._changed = Changed(self._machine)
        self._attached: set[int] = set(self._machine.sessions)  # whose timeouts may be others
        self._changes = self._bytes = 0
        self._most_bytes = min(_ENTRY_BYTES, finishing.options.limits.max_request_bytes // 2)
        self._lag = _Lag(self._reading)
        self._clock = 0
        self._whole: str | None = None  # why no entry holds the changes: a new base is due
        self._whole_at = -math.inf  # when it may be written
        self._has_sealed = False

    async def run(self) -> None:
        """Work until there is nothing left to do. Raises _Done, Again, Failure, EtcdError."""
        while True:
            entry = await self._entry()
            if self._tree.is_longer_than(self._finishing.options.log_bytes):
                await self._put(entry)
                entry = None
                await self._rebase()
            await together([self._put(entry), self._exchange(), self._apply()])
            await self._seal_if_wanted()
            age = self._lag.age()
            if self._lag.is_any:
                self._status.behind(self._position.zxid, self._lag.requests, age=age)
                if self._whole is not None and not self._reading.has_more:
                    await asyncio.sleep(self._finishing.options.idle)
                continue
            if self._reading.sealed is not None:
                await self._finish(self._reading.sealed)
            self._report(age)
            try:
                async with asyncio.timeout(self._finishing.options.idle):
                    await self._reading.arrived.wait()
            except TimeoutError:
                pass

    def _report(self, age: float | None) -> None:
        options = self._finishing.options
        if self._lag.requests:  # an archive has more than was read
            self._status.behind(self._position.zxid, self._lag.requests, age=age)
            return
        if age is None:
            return
        done = options.until_level and self._position.zxid >= options.zxid
        self._status.level(self._position.zxid, now=done, age=age)
        if done:
            raise _Done

    async def _exchange(self) -> None:
        """Report the lag, and look whether the copy has to be completed."""
        await self._status.report(self._tree.report)
        if self._source.can_seal and not self._has_sealed:  # else another one has to
            await self._finishing.look()

    async def _seal_if_wanted(self) -> None:
        """Seal the source if the copy has to be completed, and nearly all is in it."""
        wanted, at = self._finishing.wanted, self._reading.level_at()
        if wanted is None or at is None or self._has_sealed or self._position.zxid < wanted:
            return
        if self._whole is not None:
            return  # it would take long, and clients wait
        if self._lag.requests <= _SEAL_BEHIND and time.time() - at <= _SEAL_AGE:
            await self._finishing.look(at_once=True)
            if self._finishing.wanted != wanted:
                return  # it was withdrawn
            self._finishing.begin()
            await self._source.seal(self._finishing.seal(self._copy.cluster_id))
            self._has_sealed = True
            print_progress(f"{self._source.name} is sealed: its clients have to use the copy from now on")

    async def _finish(self, sealed: TreeSealed) -> None:
        """Everything before the seal is in the copy: complete it. Sessions and zxids go on."""
        if not sealed.seal.leads_to(self._finishing.seal(self._copy.cluster_id)):
            raise sealed
        self._finishing.begin()
        position = self._position
        assert position.origin is not None
        clock = max(self._clock, position.origin.clock)
        await self._tree.finish(self._copy, self._changed.take(), clock, position)
        show(f"sessions: {len(self._copy.sessions)} kept")
        print_finished(position)
        self._status.end()
        raise _Done

    async def _apply(self) -> None:
        """Apply as much as one entry of the copy takes."""
        turn = time.monotonic() + _TURN
        while self._changes < self._finishing.options.entry_changes and self._bytes < self._most_bytes:
            if self._bytes and self._bytes + self._reading.next_bytes > self._most_bytes:
                return
            arrived = self._reading.take()
            if arrived is None:
                return
            self._apply_entry(arrived)
            if time.monotonic() > turn:
                await asyncio.sleep(0)
                turn = time.monotonic() + _TURN

    def _apply_entry(self, arrived: Arrived) -> None:
        item, entry = arrived
        machine = self._machine
        disagreement = machine.begin(
            item.incarnation, item.number, entry.clock, entry.rules, entry.checkpoint, entry.digest
        )
        if disagreement is not None and item.incarnation not in self._wrong:
            # Once the copy was compared with a state that was loaded anew, it is known who is right.
            self._wrong.add(item.incarnation)
            raise Again(f"the digest of the source's proxy {item.incarnation} differs ({disagreement})")
        for request in entry.requests:
            try:
                machine.execute(request)
            except UnknownLevel as error:
                raise Failure(unknown_level(self._position.source, error.level, KNOWN)) from error
            self._changes += len(self._recorded)
            self._bytes += sum(
                _CHANGE_BYTES + len(each.path) + len(each.data or b"") for each in self._recorded
            )
            note(self._changed, machine, self._recorded, self._copy.sessions, self._attached)
        machine.end()
        self._lag.applied += len(entry.requests)
        self._clock = max(self._clock, entry.clock)

    async def _entry(self) -> Txn | None:
        """The entry of what was applied, if it is anything. What no entry holds makes a new base."""
        self._changes = self._bytes = 0
        reused = self._changed.reused
        changes = self._changed.take()
        self._copy.followed(changes)
        settings = self._copy.settings(self._attached)
        if changes.zxid == changes.after and not settings and self._whole is None:
            self._lag.write()
            self._attached.clear()
            return None
        machine, origin = self._machine, self._position.origin
        assert origin is not None
        clock = max(self._clock, origin.clock)
        origin = origin._replace(entries=machine.entries, clock=clock)
        self._position = self._position._replace(zxid=machine.zxid, origin=origin)
        if reused:
            self._whole = "a session's id was used again"
        if self._whole is None:
            try:
                entry = self._tree.entry(self._copy, changes, clock, self._position, settings)
            except TooLarge as error:
                self._whole = str(error)
            else:
                self._lag.write()
                self._attached.clear()
                return entry
        # Not at once each time: small changes by clients must not write the tree again and again.
        if time.monotonic() >= self._whole_at or self._finishing.wanted is not None:
            print_progress(f"writing all {len(machine.tree.nodes)} znodes, since {self._whole}")
            await self._rebase()
            self._whole_at = time.monotonic() + _WHOLE_EVERY
        return None

    async def _put(self, entry: Txn | None) -> None:
        if entry is not None:
            await self._tree.put(entry)

    async def _rebase(self) -> None:
        self._position = await self._tree.rebase(self._copy, self._position)
        self._lag.write()
        self._whole = None


def note(
    changed: Changed, source: Machine, recorded: list[Recorded], known: Container[int], attached: set[int]
) -> None:
    """Note what the source's last request has done, as it was recorded. `known`: the copy's sessions.

    Clears `recorded`. `attached` gets those of them that may have another timeout.
    """
    for change in recorded:
        if (of_kind := _NOTED.get(change.what)) is not None:
            of_kind(changed, change.path)
    recorded.clear()
    for session in source.session_changes:
        if isinstance(session, CarriedOver):
            continue  # a copy's sessions have no holder
        if session.incarnation is None:
            changed.closed(session.session_id)
        elif session.session_id in known and not changed.has_closed(session.session_id):
            attached.add(session.session_id)
        else:
            changed.opened(session.session_id)


_NOTED = {
    What.CREATED: Changed.created,
    What.DELETED: Changed.deleted,
    What.DATA: Changed.data,
    What.ACL: Changed.acl,
    What.STAT: Changed.stat,
}
