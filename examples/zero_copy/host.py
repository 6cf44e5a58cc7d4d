"""A replica with zero-copy parts: it follows the log of changes, and marks, reads and unmarks data."""

import asyncio
import random
from typing import Any, NamedTuple

from codec.client import Request, children, create, delete, get, maybe, set_data
from codec.constants import CreateMode, ErrorCode
from examples import world
from examples.invariants import Violation
from examples.member import Member
from examples.program import Surroundings
from examples.steps import Step
from examples.world import Connecting
from examples.zero_copy.bucket import Bucket, Rows
from examples.zero_copy.marks import Marks
from examples.zero_copy.paths import Change, ZeroCopyPaths
from lab.client.session import ConnectionLost, MultiFailed, ZooKeeperError


class Settings(NamedTuple):
    """How the hosts behave."""

    connecting: Connecting = Connecting()
    to_merge: int = 4
    """How many parts make one."""
    most_parts: int = 12
    """With more parts than that some are dropped."""
    pause_s: float = 0.1


class World(world.World):
    """What the hosts share."""

    def __init__(self, surroundings: Surroundings, settings: Settings, seed: int) -> None:
        super().__init__(
            surroundings.addresses, surroundings.meter, settings.connecting, settings.pause_s, seed
        )
        self.paths = ZeroCopyPaths(f"{surroundings.root}/table")
        self.settings = settings
        self.bucket = Bucket()
        self.hosts: dict[str, Host] = {}
        self.rows: dict[str, Rows] = {}
        """Part -> the rows that it must have."""
        self.told: list[str] = []
        """Parts whose inserts were reported as done."""


class Host(Member):
    """One server."""

    def __init__(self, world: World, number: int) -> None:
        name = f"replica-{number:02d}"
        super().__init__(world, name, number, world.paths.host(name))
        self.world = world
        self.random = random.Random(f"{world.seed}/{number}")
        self.marks = Marks(world.paths, world.bucket, name)
        self.parts: dict[str, str] = {}
        """Part -> unique id of its data, marked by this replica."""
        self.wanted: dict[str, None] = {}
        """Parts that the table has, as far as this host has read the log, in the order of their making."""
        self.outdated: dict[str, str] = {}
        """Part -> unique id of data that this host does not use any more, and has not unmarked yet."""
        self.pointer = 0
        self.inserts_seen = 0
        self.log_version = -1
        """Of the log's node, when this host had read all of it."""
        self._creating: dict[str, str] = {}
        """Part -> unique id of data that this host has written and whose multi has no answer yet."""
        self._keeping: dict[str, str] = {}
        """The same for marks that are to last."""

    async def settle(self, step: Step) -> None:
        """Find out which marks of the session before have become lasting ones."""
        for unknown in (self._creating, self._keeping):
            for part, identity in list(unknown.items()):
                if await self.marks.is_marked(step, part, identity):
                    self._have(part, identity)
                elif unknown is self._creating:
                    self.world.bucket.delete(identity, self.name)
                del unknown[part]

    def _have(self, part: str, identity: str) -> None:
        self.world.bucket.marked(identity, self.name)
        self.parts[part] = identity

    async def add(self, step: Step, part: str, rows: Rows, *more: Request[Any]) -> bool:
        """Write a new part's data and mark them, in one multi with `more`; False if `more` lacks a node."""
        identity = self.world.identity()
        self.still(step)
        self.world.bucket.write(identity, rows)
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
                self.world.bucket.delete(identity, self.name)
                if failed.code != ErrorCode.NO_NODE:
                    raise
                return False
        del self._creating[part]
        self._have(part, identity)
        return True

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
                    if await self.add(step, part, rows, entry):
                        break
                except ConnectionLost:
                    continue
        self.world.told.append(part)

    @property
    def known(self) -> set[str]:
        """Parts that this host has or has had to unmark."""
        return {*self.parts, *self.outdated}

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
        for part in change.removed:
            if part in self.parts:
                self.outdated[part] = self.parts.pop(part)

    async def _obtain(self, change: Change) -> bool:
        """Whether the part is here now: by a fetch, or a merge if this host gets the lock."""
        with self.world.steps.step("fetch", await self.session()) as step:
            step.counts = await self._fetch(step, change.added)
        if step.counts or not change.removed or any(source not in self.parts for source in change.removed):
            return step.counts
        with self.world.steps.step("merge", await self.session()) as step:
            step.counts = await self._merge(step, change)
        return step.counts

    async def _superseded(self, part: str) -> bool:
        """Whether a later entry of the log removes a part, so that no replica may have it any more."""
        session = await self.session()
        for name in sorted((await session.call(children(self.world.paths.log))).names):
            if int(name[-10:]) > self.pointer:
                entry = await session.call(get(f"{self.world.paths.log}/{name}"))
                if part in Change.decode(entry.data).removed:
                    return True
        return False

    async def _fetch(self, step: Step, part: str) -> bool:
        """Use the data that another replica has marked."""
        found = await step.call(maybe(children(self.world.paths.part(part))))
        for identity in found.names if found is not None else []:
            if not await self.marks.borrow(step, part, identity):
                continue
            if await self.marks.is_marked(step, part, identity):
                self._have(part, identity)
                return True
            self.still(step)
            self._keeping[part] = identity
            try:
                await self.marks.keep(step, part, identity, self.fence)
            except MultiFailed as failed:
                raise Violation(
                    "marked", f"{self.name} has lost its mark of {identity}: {failed}"
                ) from failed
            del self._keeping[part]
            self._have(part, identity)
            return True
        return False

    async def _merge(self, step: Step, change: Change) -> bool:
        """Merge under the lock; False if another replica does so, or has done it."""
        part, lock = change.added, self.world.paths.merge_lock(change.added)
        try:
            await step.call(create(lock, self.name.encode(), CreateMode.EPHEMERAL))
        except ZooKeeperError as error:
            if error.code == ErrorCode.NODE_EXISTS:
                return False
            raise
        found = await step.call(maybe(children(self.world.paths.part(part))))
        if found is not None and found.names:
            await step.call(delete(lock))
            return False
        sources = [self.parts[source] for source in change.removed]
        rows = frozenset[str]().union(*(self.world.bucket.read(each, self.name) for each in sources))
        if not await self.add(step, part, rows, delete(lock)):
            return False
        self.world.bucket.merged(part, self.parts[part], self.name)
        return True

    async def tidy(self) -> None:
        """Unmark what is outdated; the last one deletes it."""
        while True:
            for part, identity in list(self.outdated.items()):
                with self.world.steps.step("unmark", await self.session()) as step:
                    await self.marks.unmark(step, part, identity, self.fence)
                del self.outdated[part]
            await asyncio.sleep(self.world.settings.pause_s)

    async def read(self) -> None:
        """Read the data of all parts again and again, as queries do."""
        while True:
            for identity in self.parts.values():
                self.world.bucket.read(identity, self.name)
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
