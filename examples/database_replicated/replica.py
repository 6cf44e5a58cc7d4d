"""One simulated ClickHouse server: its tables, its session, the worker, the proposer and the cleaner.

Tables and name outlive a session, as a disk does; everything else is read again when a session begins. A
subclass may misbehave at one of the small methods: the tests' wrong replicas do.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from codec.client import (
    Request,
    check,
    children,
    create,
    delete,
    exists,
    get,
    maybe,
    multi,
    set_data,
    stamped,
)
from codec.constants import CreateMode, ErrorCode
from examples.database_replicated import ddl, layout
from examples.database_replicated.layout import Layout, number_of
from examples.database_replicated.ledger import Ledger
from examples.invariants import Violation
from lab.client.meter import Meter
from lab.client.session import Address, ConnectionLost, MultiFailed, Session, ZooKeeperError, connect

_AFTER_ERROR_S = 0.05


class Fate(Enum):
    """How a replica is lost."""

    HOLDING_THE_LOCK = "holding the lock"
    BEFORE_ITS_COMMIT = "before its commit"
    WITH_ITS_DISK = "with its disk"
    FOR_LONG = "for longer than the log is kept"


class Settings(NamedTuple):
    """What all replicas of a run share."""

    addresses: Sequence[Address]
    layout: Layout
    ledger: Ledger
    meter: Meter
    session_timeout_ms: int
    operation_timeout_s: float
    lock_pause_s: float
    """How long a proposer waits before it tries to take the lock again."""
    cancel_after_s: float
    """How long a replica waits for an entry's initiator before it cancels the entry."""
    seed: int


class _Own(NamedTuple):
    """An entry that this replica proposed."""

    text: bytes
    done: asyncio.Event


class _Died(Exception):
    """The replica was lost, as its fate says."""


class Replica:
    """One simulated server."""

    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.name = f"r{number:02d}"
        self.tables: dict[str, str] = {}
        self.pointer = layout.NEW
        """The last entry that was looked at: applied, or skipped because it is not committed."""
        self.proposing = False
        self.idle = True
        """Whether the proposer waits until `proposing` is set."""
        self.level = asyncio.Event()
        """Set while the replica is up and has looked at all that it has seen in the log."""
        self.fate: Fate | None = None
        self.losses = 0
        self.settings = settings
        self._places = settings.layout
        self._ledger = settings.ledger
        self._chance = random.Random(f"{settings.seed} {number}")
        self._proposals = 0
        self._own: dict[int, _Own] = {}  # entries of this session's proposer
        self._session: Session | None = None
        self._fence: Request[None] = check(self._places.session(self.name))
        self._keep = 0

    @property
    def session(self) -> Session:
        """The session of now."""
        assert self._session is not None
        return self._session

    async def live(self) -> None:
        """Be a server, through any number of sessions, until cancelled. Raises Violation."""
        attempt = self.number  # the replicas spread over the servers
        try:
            while True:
                settings = self.settings
                self._session = await connect(
                    settings.addresses,
                    attempt,
                    timeout_ms=settings.session_timeout_ms,
                    operation_timeout_s=settings.operation_timeout_s,
                    meter=settings.meter,
                )
                attempt += 1
                try:
                    await self._serve()
                except* _Died:
                    await self._lie_dead()
                except* (ConnectionLost, ZooKeeperError) as errors:
                    self.session.drop()
                    self._raise_unexpected(errors)
                    await asyncio.sleep(_AFTER_ERROR_S)
                finally:
                    self.level.clear()
        finally:
            if self._session is not None:
                await self._session.close()

    def _raise_unexpected(self, errors: BaseExceptionGroup[Any]) -> None:
        """NO_NODE: an entry was deleted while it was looked at. The next session finds out what to do."""
        for error in errors.exceptions:
            if isinstance(error, BaseExceptionGroup):
                self._raise_unexpected(error)
            elif isinstance(error, ZooKeeperError) and error.code not in (
                ErrorCode.NO_NODE,
                ErrorCode.SESSION_EXPIRED,
                ErrorCode.SESSION_MOVED,
                ErrorCode.CONNECTION_LOSS,
                ErrorCode.SYSTEM_ERROR,
            ):
                raise Violation("requests", f"{self.name}: {error}")
        self._ledger.note("sessions begun again")

    async def _serve(self) -> None:
        await self._begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            group.create_task(self._propose_again_and_again())

    async def _lie_dead(self) -> None:
        """The process is gone; come back as the fate says."""
        fate, self.fate = self.fate, None
        if fate == Fate.WITH_ITS_DISK:
            self.tables = {}
        elif fate == Fate.FOR_LONG:
            while True:
                await asyncio.sleep(_AFTER_ERROR_S)
                if self._ledger.last > self.pointer + self._keep + 1:
                    break
        self.losses += 1

    def _die_if(self, *fates: Fate) -> None:
        if self.fate in fates:
            self.session.drop()
            raise _Died

    # The beginning of a session.

    async def _begin(self) -> None:
        """Fence earlier sessions off, find out whether the tables are level with the log, become active."""
        places, session, node = self._places, self.session, self._places.replica(self.name)
        self._own.clear()
        if await session.call(exists(node)) is None:
            await self._join()
        begun = await session.call(set_data(places.session(self.name), str(session.id).encode()))
        self._fence = check(places.session(self.name), begun.version)
        active = await session.call(maybe(get(f"{node}/active")))
        if active is not None:
            await session.call(maybe(delete(f"{node}/active")))
        log_ptr = int((await session.call(get(f"{node}/log_ptr"))).data)
        max_log_ptr = await self._max_log_ptr()
        self._keep = int((await session.call(get(places.logs_to_keep))).data)
        digest = (await session.call(get(f"{node}/digest"))).data.decode()
        self.pointer = log_ptr
        lost = log_ptr == layout.NEW or log_ptr + self._keep < max_log_ptr
        if lost or digest != ddl.digest(self.tables):
            await self._recover()
        await session.call(create(f"{node}/active", self.name.encode(), CreateMode.EPHEMERAL))

    async def _join(self) -> None:
        """Become a replica, and append an entry that says so. Twice does no harm."""
        while True:
            stat = (await self.session.call(get(self._places.max_log_ptr))).stat
            try:
                await self.session.multi(*self._places.make_replica(self.name, stat.version))
                break
            except MultiFailed as failed:
                if failed.code == ErrorCode.NODE_EXISTS:  # an answer was lost
                    return
                if failed.code != ErrorCode.BAD_VERSION:
                    raise
        node = self._places.session(self.name)
        self._fence = check(node)
        await self._append(b"", time.monotonic())

    async def _recover(self) -> None:
        """Take the tables of the snapshot, at a moment at which no entry is committed meanwhile."""
        places, session = self._places, self.session
        before = await self._max_log_ptr()
        while True:
            names = (await session.call(children(places.metadata))).names
            asked = [session.send(maybe(get(places.table(name)))) for name in names]
            after = session.send(get(places.max_log_ptr))
            found = dict(zip(names, [await answer for answer in asked], strict=True))
            number = int((await after).data)
            if number == before:
                break
            before = number
        tables = {name: node.data.decode() for name, node in found.items() if node is not None}
        digest = ddl.digest(tables)
        await session.multi(*places.recover(self._fence, number, self.name, digest))
        self.tables, self.pointer = tables, number
        self._ledger.recovered(self.name, number, digest)
        for own in [own for own in self._own if own <= number]:
            self._own.pop(own).done.set()  # cancelled long ago: the worker does not look at it any more

    async def _max_log_ptr(self) -> int:
        return int((await self.session.call(get(self._places.max_log_ptr))).data)

    # The worker.

    async def _work(self) -> None:
        while True:
            listing, changed = await self.session.watched(children(self._places.log))
            pending = sorted(n for n in map(number_of, listing.names) if n > self.pointer)
            if pending and pending[0] > self.pointer + 1:
                await self._recover_if_lost()
            for number in pending:
                if number > self.pointer:
                    await self._look_at(number)
                    self._die_if(Fate.WITH_ITS_DISK, Fate.FOR_LONG)
                    if number % len(self._ledger.replicas) == self.number:
                        await self._clean()
            self.level.set()
            await changed.wait()
            self.level.clear()
            if self.session.lost.is_set():
                raise ConnectionLost("the connection was lost")

    async def _recover_if_lost(self) -> bool:
        """The next entries, or their marks, are missing: if they may have been deleted, take the snapshot."""
        if await self._max_log_ptr() - self.pointer <= self._keep:
            return False
        await self._recover()
        return True

    async def _look_at(self, number: int) -> None:
        """Apply an entry, or skip it."""
        session, node = self.session, self._places.entry(number)
        if number in self._own:
            await self._run_own(number)
            return
        await self._wait_for_initiator(f"{node}/try")
        if not await self._is_committed(number):
            if not await self._recover_if_lost():
                self._ledger.note("entries skipped")  # if a replica applied it, `judge` finds it lost here
                self.pointer = number
            return
        text = (await session.call(get(node))).data
        if text:
            if await session.call(exists(f"{node}/finished/{self.name}")) is not None:
                raise Violation("doubled", f"{self.name} is to apply entry {number}, which it has finished")
            await self._apply(number, text)
        self.pointer = number

    async def _is_committed(self, number: int) -> bool:
        return await self.session.call(exists(f"{self._places.entry(number)}/committed")) is not None

    async def _wait_for_initiator(self, path: str) -> None:
        """Until the initiator has committed or rolled back, or its session is over."""
        while True:
            tried, gone = await self.session.watched(maybe(get(path)))
            if tried is None:
                return
            if not await gone.wait(self.settings.cancel_after_s):
                await self.session.call(maybe(delete(path)))

    async def _apply(self, number: int, text: bytes) -> None:
        """Run another replica's query and note it in ZooKeeper."""
        made = ddl.changes(self.tables, ddl.query_of(text))
        if made is None:
            raise Violation(
                "agreement", f"{self.name} cannot run entry {number}, {text!r}, which is committed"
            )
        after = ddl.changed(self.tables, made)
        digest = ddl.digest(after)
        await self._become_active(number)
        await self.session.multi(*self._places.commit_secondary(self._fence, number, self.name, digest))
        self._applied(number, text, after, digest)

    def _applied(self, number: int, text: bytes, tables: dict[str, str], digest: str) -> None:
        self.tables = tables
        self.pointer = number
        self._ledger.applied(self.name, number, text, digest, time.monotonic())

    async def _become_active(self, number: int) -> None:
        path = self._places.active(number, self.name)
        try:
            await self.session.call(create(path, mode=CreateMode.EPHEMERAL))
        except ZooKeeperError as error:
            if error.code != ErrorCode.NODE_EXISTS:
                raise
            await self.session.call(maybe(delete(path)))  # an earlier session's, which is not over yet
            await self.session.call(create(path, mode=CreateMode.EPHEMERAL))

    async def _run_own(self, number: int) -> None:
        """Run a query of this replica's own proposer, commit the entry or roll it back."""
        text, done = self._own.pop(number)
        made = ddl.changes(self.tables, ddl.query_of(text))
        self._die_if(Fate.BEFORE_ITS_COMMIT)
        await self._become_active(number)
        places = self._places
        after = ddl.changed(self.tables, made or {})
        digest = ddl.digest(after)
        if made is None:
            parts = places.roll_back(self._fence, number, self.name)
        else:
            metadata = places.metadata_of(self.tables, made)
            parts = places.commit_initial(self._fence, number, self.name, metadata, digest)
        try:
            await self.session.multi(*parts)
        except MultiFailed as failed:
            if failed.failed != layout.TRY_PART:
                raise Violation("snapshot", f"{self.name} cannot commit entry {number}: {failed}") from failed
            made = None  # another replica has cancelled it
            await self.session.call(maybe(delete(places.active(number, self.name))))
        if made is None:
            self._ledger.rolled_back(number)
            self.pointer = number
        else:
            self._ledger.acknowledged(number, time.monotonic())
            self._applied(number, text, after, digest)
        done.set()

    # The proposer.

    async def _propose_again_and_again(self) -> None:
        while True:
            while not self.proposing:
                self.idle = True
                await asyncio.sleep(_AFTER_ERROR_S)
            self.idle = False
            self._proposals += 1
            query = ddl.some_query(self._chance, self.tables, f"{self.name}-{self._proposals}")
            begun = time.monotonic()
            await self._max_log_ptr()  # ClickHouse refuses if the replica is far behind
            done = await self._append(ddl.text_of(query), begun)
            await done.wait()

    async def _append(self, text: bytes, begun: float) -> asyncio.Event:
        """Take the lock and a number, append an entry. The event is set when the worker is done with it."""
        places, session, ledger = self._places, self.session, self._ledger
        counter, locked = await self._take_lock()
        number = number_of(counter)
        ledger.locked(self.name, number, text, begun, locked)
        self._die_if(Fate.HOLDING_THE_LOCK)
        done = asyncio.Event()
        if text:
            self._own[number] = _Own(text, done)  # before the worker can see it
        parts = places.append(self._fence, number, counter, self.name, text)
        _, released = await session.call(stamped(multi(parts)))
        ledger.released(self.name, locked, released)
        return done

    async def _take_lock(self) -> tuple[str, int]:
        """Take the lock and a number; the number's node, and the zxid at which it has the lock."""
        while True:
            try:
                (_, counter), zxid = await self.session.call(stamped(multi(self._places.lock(self.name))))
                return str(counter), zxid
            except MultiFailed as failed:
                if failed.failed != layout.LOCK_PART or failed.code != ErrorCode.NODE_EXISTS:
                    raise
                self._ledger.note("tries to take the lock in vain")
            except (ConnectionLost, asyncio.CancelledError):
                self._ledger.lock_unknown()
                raise
            await asyncio.sleep(self.settings.lock_pause_s)

    # The cleaner.

    async def _clean(self) -> None:
        """Delete entries that no replica needs: those that are lost to it recover from the snapshot."""
        places, session = self._places, self.session
        max_log_ptr = await self._max_log_ptr()
        for name in sorted((await session.call(children(places.log))).names):
            number = number_of(name)
            if number < max_log_ptr - self._keep:
                await self._delete_entry(number, max_log_ptr)

    async def _delete_entry(self, number: int, max_log_ptr: int) -> None:
        session, node = self.session, self._places.entry(number)
        listing = await session.call(maybe(children(node)))
        if listing is None:
            return
        self._ledger.cleaning(number, max_log_ptr, self._keep, "committed" in listing.names)
        try:
            # First `active`: where it is gone, no replica begins to apply the entry.
            for status in ("active", "try", "committed", "synced"):
                await session.call(maybe(delete(f"{node}/{status}")))
            finished = await session.call(maybe(children(f"{node}/finished")))
            if finished is not None:
                await session.multi(*self._places.remove(number, finished.names))
                self._ledger.note("entries deleted")
        except ZooKeeperError as error:
            if error.code not in (ErrorCode.NO_NODE, ErrorCode.NOT_EMPTY):
                raise  # else another replica is deleting it, or still applying it
