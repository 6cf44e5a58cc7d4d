"""A replica with zero-copy parts: it follows the log of changes, and marks, reads and unmarks data."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from codec.client import Request, children, create, delete, get, maybe, set_data
from codec.constants import CreateMode, ErrorCode
from examples.zero_copy.marks import Marks
from examples.zero_copy.member import Member
from examples.zero_copy.paths import Change, ZeroCopyPaths
from examples.zero_copy.steps import Step, Steps
from examples.zero_copy.storage import Rows, Storage, Violation
from examples.zero_copy.surroundings import Connecting, Surroundings
from lab.client.session import ConnectionLost, MultiFailed, Session, ZooKeeperError


class Settings(NamedTuple):
    """How the hosts behave."""

    connecting: Connecting = Connecting()
    to_merge: int = 4
    """How many parts make one."""
    most_parts: int = 12
    """With more parts than that some are dropped."""
    pause_s: float = 0.1
    """Between two looks of a host, or of the observer, for something to do."""
    hybrid: bool = False
    """Inserts go to local disks; each host moves its parts to S3 later."""
    buckets: int = 1
    """The hosts take turns to use them."""


class World:
    """What the hosts of one run share."""

    def __init__(self, surroundings: Surroundings, settings: Settings, seed: int) -> None:
        self.surroundings = surroundings
        self.settings = settings
        self.seed = seed
        self.steps = Steps()
        self.resting = False
        """Nothing new is begun any more."""
        self.buckets: dict[str, int] = {}
        """Replica -> the number of its bucket."""
        self.paths = ZeroCopyPaths(f"{surroundings.root}/table")
        self.hosts: dict[str, Host] = {}
        self.storage = Storage(self.buckets)
        self.rows: dict[str, Rows] = {}
        """Part -> the rows that it must have."""
        self.told: list[str] = []
        """Parts whose inserts were reported as done."""
        self._identities = 0

    def identity(self) -> str:
        """A new name."""
        self._identities += 1
        return f"{self.seed}-{self._identities:06d}"


async def log_entries(session: Session, log: str, start: int = 0) -> list[Change]:
    """The entries of the log from number `start` on, in their order."""
    names = sorted((await session.call(children(log))).names)
    return [
        Change.decode((await session.call(get(f"{log}/{name}"))).data)
        for name in names
        if int(name[-10:]) >= start
    ]


class Host(Member):
    """One server."""

    def __init__(self, world: World, number: int) -> None:
        name = f"replica-{number:02d}"
        at, connecting = world.surroundings, world.settings.connecting
        super().__init__(at, connecting, world.steps, name, world.paths.host(name), number)
        self.world = world
        self.random = random.Random(f"{world.seed}/{number}")
        world.buckets[name] = number % world.settings.buckets
        self.storage = world.storage
        self.marks = Marks(world.paths, world.storage, name)
        self.parts: dict[str, str] = {}
        """Part -> unique id of its data, marked by this replica."""
        self.local: dict[str, Rows] = {}
        """Part -> what this host's own disk has of it."""
        self.wanted: dict[str, None] = {}
        """Parts that the table has, as far as this host has read the log, in the order of their making."""
        self.outdated: dict[str, str] = {}
        """Part -> unique id of data that this host does not use any more, and has not unmarked yet."""
        self.leftovers: dict[str, tuple[str, str]] = {}
        """Temporary directory -> part and unique id, of fetches that died."""
        self.pointer = 0
        self.inserts_seen = 0
        self.log_version = -1
        """Of the log's node, when this host had read all of it."""
        self._creating: dict[str, str] = {}
        """Part -> unique id of data that this host has written and whose multi has no answer yet."""
        self._fetching: dict[str, tuple[str, str]] = {}
        """Temporary directory -> part and unique id, of fetches that are under way."""
        self._announcing: dict[str, Rows] = {}
        """The same as `_creating` for parts on the local disk."""
        self._removed: set[str] = set()
        """Parts that the table has no more, as far as this host has read the log."""

    async def settle(self, step: Step) -> None:
        """Find out what became of inserts, fetches and merges of the session before."""
        for part, identity in list(self._creating.items()):
            if await self.marks.is_marked(step, part, identity):
                self._have(part, identity)
            else:
                self.storage.delete(identity, self.name)
            del self._creating[part]
        for directory, (part, identity) in list(self._fetching.items()):
            if await self.marks.is_marked(step, part, identity):
                self._fetched(directory)
            else:
                self.leftovers[directory] = self._fetching.pop(directory)
        if self._announcing:
            added = {change.added for change in await log_entries(step.session, self.world.paths.log)}
            self.local.update((part, rows) for part, rows in self._announcing.items() if part in added)
            self._announcing.clear()

    def _have(self, part: str, identity: str) -> None:
        """Use data that are marked, unless the log has removed the part while it was moved."""
        self.storage.marked(identity, self.name)
        (self.outdated if part in self._removed else self.parts)[part] = identity
        self.local.pop(part, None)

    def _fetched(self, directory: str) -> None:
        part, identity = self._fetching.pop(directory)
        self._have(part, identity)
        self.storage.unmarking(identity, self.name, directory)

    def rows(self, part: str) -> Rows | None:
        """What the host has of a part; None if it has not got the part."""
        if part in self.parts:
            return self.storage.read(self.parts[part], self.name)
        return self.local.get(part)

    async def add(self, step: Step, part: str, rows: Rows, *more: Request[Any]) -> str:
        """Write a new part's data and mark them, in one multi with `more`.

        Returns the unique id of the data, which is empty if `more` lacks a node.
        """
        identity = self.world.identity()
        self.still(step)
        self.storage.write(identity, rows, self.name)
        self._creating[part] = identity
        first = True
        while True:
            try:
                await step.multi(*self.marks.creation(part, identity, first=first), *more, self.fence)
                break
            except MultiFailed as failed:
                if failed.failed == 0 and failed.code == (
                    ErrorCode.NODE_EXISTS if first else ErrorCode.NO_NODE
                ):
                    first = not first
                    continue
                del self._creating[part]
                self.storage.delete(identity, self.name)
                if failed.code != ErrorCode.NO_NODE:
                    raise
                return ""
        del self._creating[part]
        self._have(part, identity)
        return identity

    async def insert(self) -> None:
        """A new part with new rows; made anew until it is there."""
        part = self.world.identity()
        rows = frozenset({part})
        self.world.rows[part] = rows
        entry = create(
            f"{self.world.paths.log}/log-", Change(part, ()).encode(), CreateMode.PERSISTENT_SEQUENTIAL
        )
        with self.world.steps.step("insert", await self.session()) as step:
            while True:
                step.session = await self.session()
                if part in self.known:
                    break  # the multi without an answer had been applied
                try:
                    if self.world.settings.hybrid:
                        self._announcing[part] = rows
                        await step.multi(entry, self.fence)
                        self.local[part] = self._announcing.pop(part)
                    else:
                        await self.add(step, part, rows, entry)
                    break
                except ConnectionLost:
                    continue
        self.world.told.append(part)

    @property
    def known(self) -> set[str]:
        """Parts that this host has, or that are removed."""
        return {*self.parts, *self.local, *self._removed}

    async def follow(self) -> None:
        """Do what the log says, in its order, and wait for more."""
        while True:
            session = await self.session()
            (names, stat), watch = await session.watched(children(self.world.paths.log))
            for name in sorted(names):
                if int(name[-10:]) >= self.pointer:
                    entry = await session.call(get(f"{self.world.paths.log}/{name}"))
                    change = Change.decode(entry.data)
                    await self._apply(change)
                    self.pointer = int(name[-10:]) + 1
                    self.inserts_seen += not change.removed
            self.log_version = stat.version
            await watch.wait()

    async def _apply(self, change: Change) -> None:
        for part in change.removed:
            self.wanted.pop(part, None)
        if change.added:
            self.wanted[change.added] = None
            while change.added not in self.known and not await self._obtain(change):
                if await self._superseded(change.added):
                    break
                await asyncio.sleep(self.world.settings.pause_s)
        self._removed.update(change.removed)
        for part in change.removed:
            self.local.pop(part, None)
            if part in self.parts:
                self.outdated[part] = self.parts.pop(part)

    async def _obtain(self, change: Change) -> bool:
        """Whether the part is here now: by a fetch, or a merge if this host gets the lock."""
        part = change.added
        session = await self.session()
        if part in self.known:
            return True  # a multi without an answer had been applied
        with self.world.steps.step("fetch", session) as step:
            step.counts = await self._share(step, part)
        if step.counts:
            return True
        with self.world.steps.step("copy", await self.session()) as step:
            step.counts = await self._copy(step, part)
        if step.counts or not change.removed:
            return step.counts
        with self.world.steps.step("merge", await self.session()) as step:
            step.counts = await self._make(step, "merged", part, lambda: self._together(change.removed))
        return step.counts

    async def _superseded(self, part: str) -> bool:
        """Whether a later entry of the log removes a part, so that no replica may have it any more."""
        later = await log_entries(await self.session(), self.world.paths.log, self.pointer + 1)
        return any(part in change.removed for change in later)

    async def _shareable(self, step: Step, part: str) -> list[str]:
        """Unique ids of a part's data in any bucket."""
        found = await step.call(maybe(children(self.world.paths.part(part))))
        return found.names if found is not None else []

    async def _share(self, step: Step, part: str) -> bool:
        """Use data that another replica has marked, if they are in this host's bucket."""
        for identity in await self._shareable(step, part):
            if not self.storage.reaches(identity, self.name):
                continue
            self.still(step)
            directory = f"tmp_fetch_{part}.{self.world.identity()}"
            self._fetching[directory] = (part, identity)
            if not await self.marks.hold(step, part, identity, directory, self.fence):
                del self._fetching[directory]
                continue
            try:
                await self.marks.rename(step, part, identity, directory, self.fence)
            except MultiFailed as failed:
                raise Violation(
                    "marked", f"{self.name} has lost its mark of {identity}: {failed}"
                ) from failed
            self._fetched(directory)
            return True
        return False

    async def _copy(self, step: Step, part: str) -> bool:
        """An ordinary fetch, of what cannot be shared: a copy on the same kind of storage."""
        for other in self.world.hosts.values():
            rows = other.rows(part)
            if rows is None or self.storage.reaches(other.parts.get(part, ""), self.name):
                continue
            if part in other.parts:
                return bool(await self.add(step, part, rows))
            self.local[part] = rows
            return True
        return False

    async def _make(self, step: Step, how: str, part: str, rows: Callable[[], Rows | None]) -> bool:
        """Write a part's data under a lock; False if another replica does so or did, or without rows."""
        lock = self.world.paths.lock(how, part)
        try:
            await step.call(create(lock, self.name.encode(), CreateMode.EPHEMERAL))
        except ZooKeeperError as error:
            if error.code == ErrorCode.NODE_EXISTS:
                return False
            raise
        there = await self._shareable(step, part)
        if how == "moved":  # a merge that was done in another bucket is fetched from there
            there = [identity for identity in there if self.storage.reaches(identity, self.name)]
        made = None if there else rows()
        if made is None:
            await step.call(delete(lock))
            return False
        identity = await self.add(step, part, made, delete(lock))
        if identity:
            self.storage.made(how, part, identity, self.name)
        return bool(identity)

    def _together(self, parts: tuple[str, ...]) -> Rows | None:
        """The rows of parts that are to be merged; None if this host lacks one of them."""
        found = [self.rows(part) for part in parts]
        rows = [each for each in found if each is not None]
        return frozenset[str]().union(*rows) if len(rows) == len(parts) else None

    async def move(self) -> None:
        """Move what is on the local disk to S3, as a TTL demands. Each replica does so."""
        while True:
            await asyncio.sleep(self.world.settings.pause_s)
            for part in list(self.local):
                session = await self.session()
                if part not in self.local:
                    continue  # a multi without an answer had been applied
                with self.world.steps.step("move", session) as step:
                    step.counts = await self._share(step, part) or await self._make(
                        step, "moved", part, partial(self.local.get, part)
                    )

    async def tidy(self) -> None:
        """Unmark what is outdated, and what fetches that died have left; the last one deletes it."""
        while True:
            for part, identity in list(self.outdated.items()):
                with self.world.steps.step("unmark", await self.session()) as step:
                    await self.marks.unmark(step, part, identity, self.fence)
                del self.outdated[part]
            for directory, (part, identity) in list(self.leftovers.items()):
                with self.world.steps.step("cleaning", await self.session()) as step:
                    await self._clean(step, part, identity, directory)
                del self.leftovers[directory]
            await asyncio.sleep(self.world.settings.pause_s)

    async def _clean(self, step: Step, part: str, identity: str, directory: str) -> None:
        await self.marks.unmark(step, part, identity, self.fence, directory)
        has = self.parts.get(part) == identity
        if has and not await self.marks.is_marked(step, part, identity) and part in self.parts:
            raise Violation(
                "tmp-fetch", f"{directory} of {self.name} is removed, and the mark of {part} with it"
            )

    async def read(self) -> None:
        """Read the data of all parts again and again, as queries do."""
        while True:
            for identity in self.parts.values():
                self.storage.read(identity, self.name)
            await asyncio.sleep(self.world.settings.pause_s)

    async def propose(self) -> None:
        """Ask for a merge, or for the drop of a part if there are many."""
        settings = self.world.settings
        while True:
            await asyncio.sleep(settings.pause_s * (0.5 + self.random.random()))
            version, wanted = self.log_version, list(self.wanted)
            if self.world.resting or version < 0 or len(wanted) < settings.to_merge:
                continue
            if len(wanted) > settings.most_parts and self.random.random() < 0.5:
                change = Change("", (self.random.choice(wanted),))
            else:
                start = self.random.randrange(len(wanted) - settings.to_merge + 1)
                change = Change(self.world.identity(), tuple(wanted[start : start + settings.to_merge]))
                rows = (self.world.rows[source] for source in change.removed)
                self.world.rows[change.added] = frozenset[str]().union(*rows)
            entry = create(f"{self.world.paths.log}/log-", change.encode(), CreateMode.PERSISTENT_SEQUENTIAL)
            with self.world.steps.step("proposal", await self.session()) as step:
                try:
                    await step.multi(entry, set_data(self.world.paths.log, b"", version))
                except MultiFailed as failed:
                    if failed.code != ErrorCode.BAD_VERSION:
                        raise
                    step.counts = False  # another host was quicker
