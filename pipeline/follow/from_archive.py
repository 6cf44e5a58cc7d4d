"""An archive of another zketcd as the source of a copy: files are listed and read, and etcd is not asked."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from typing_extensions import override

from archive.files import container
from archive.files.catalog import ArchiveError, Catalog, Run
from archive.files.moment import NOW
from archive.files.names import Point
from archive.files.small_files import complete_up_to
from archive.files.store import Store, existing
from archive.past import state as past
from pipeline.errors import Failure
from pipeline.follow.output import print_progress
from pipeline.follow.source import Again, NotThere, OtherSource, Reading
from pipeline.follow.target import Origin
from proxy.log.follow.log_order import Apply
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.entry import Written
from schema.errors import BadValue
from schema.followed import Sign
from schema.record import Seal


class Polls(NamedTuple):
    """How often an archive is listed, and how much of it is read at once."""

    every: float = 1.0  # seconds
    retry: float = 5.0  # seconds after a failure
    together: int = 16  # segments of about a MiB


POLLS = Polls()


def cannot_be_sealed(name: str) -> Failure:
    """An archive does not know where its etcd is."""
    return Failure(
        f"{name} cannot be sealed. Name the source as config:FILE or etcd://HOST:PORT/PREFIX, or if it is"
        " lost, add --source-lost"
    )


class InArchive:
    """The newest run of an archive."""

    can_seal = False

    def __init__(self, name: str, url: str, polls: Polls = POLLS) -> None:
        self.name = name
        self._url = url
        self._polls = polls

    async def open(self, entries: int | None, origin: Origin | None) -> Reading:
        """As `Source.open`."""
        return await asyncio.to_thread(self._open, entries, None if origin is None else origin.cluster_id)

    async def vouch(self, origin: Origin, sign: Sign, hold: Callable[[], Awaitable[None]]) -> None:
        """As `Source.vouch`: an archive shows nobody anything."""
        raise Failure("--standby-within needs a source in etcd")

    async def seal(self, where: Seal) -> None:
        """As `Source.seal`."""
        raise cannot_be_sealed(self.name)

    def _open(self, entries: int | None, cluster_id: int | None) -> Reading:
        try:
            store = existing(self._url)
            run = _newest(store)
            if cluster_id is not None and run.cluster != cluster_id:
                raise OtherSource(
                    f"{self.name} is of the etcd cluster {run.cluster:016x}, and the copy has followed"
                    f" {cluster_id:016x}: it is the archive of another tree, or etcd was restored. Start"
                    " over with --overwrite"
                )
            if run.holes:
                raise ArchiveError("files are missing (`zketcd archive verify` says which)")
            wanted = run.end.entries if entries is None else entries
            if wanted < run.begin.entries:
                raise NotThere(f"{self.name}: its newest run begins after {run.begin.entries} entries")
            if wanted > run.end.entries:
                raise NotThere(f"{self.name}: it has {run.end.entries} entries so far")
            return _Polling(self.name, store, run, _state(store, run, wanted), self._polls)
        except ArchiveError as error:
            raise Failure(f"{self.name}: {error}") from error


def _newest(store: Store) -> Run:
    """The run that is being written. Raises ArchiveError."""
    catalog = Catalog(store.list())
    catalog.check_filled()
    return catalog.runs[-1]


def _state(store: Store, run: Run, entries: int) -> Machine:
    """The state after so many entries. Raises ArchiveError."""
    snapshot = run.snapshot_before(entries)[0]
    with uncollected():
        try:
            machine = container.load(snapshot, store.get(run.path(snapshot)))
        except (BadValue, UnknownLevel) as error:
            raise ArchiveError(f"{run.path(snapshot)} cannot be read: {error}") from error
        for each in run.segments:
            if machine.entries < min(each.end.entries, entries):
                past.replay(machine, past.read(store, run, each), NOW, entries)
    return machine


class _Polling(Reading):
    """Lists the archive again and again."""

    def __init__(self, name: str, store: Store, run: Run, machine: Machine, polls: Polls) -> None:
        super().__init__(machine, run.cluster, "")
        self._polls = polls
        self._name = name
        self._store = store
        self._run = run
        self._read = machine.entries  # entries that have arrived
        self._unread = 0  # zxids behind them, in the last listing
        self._reached: Point | None = None  # all of an archive was read up to here
        self._level_at: float | None = None
        self._failed = False

    @override
    def level_at(self) -> float | None:
        if self._reached is not None and self.machine.entries >= self._reached.entries:
            self._level_at = self._reached.clock / 1000
        return self._level_at

    @property
    @override
    def behind(self) -> int:
        return super().behind + self._unread

    @override
    async def run(self) -> None:
        while True:
            pause = self._polls.every
            if not self.waiting:
                try:
                    found, reached, unread = await asyncio.to_thread(self._new)
                    for content in found:
                        for record in content:
                            self._arrive(Apply(*record))
                            self._read += 1
                        await asyncio.sleep(0)
                    # While clients write, each listing has more than the one before it.
                    self._reached, self._unread = reached or self._reached, unread
                    self._failed = False
                except ArchiveError as error:
                    if not self._failed:
                        print_progress(f"{self._name} cannot be read, trying again: {error}")
                    self._failed, pause = True, self._polls.retry
            await asyncio.sleep(pause)

    def _new(self) -> tuple[list[Sequence[Written]], Point | None, int]:
        """The entries of some segments that were not read yet; up to where they are all, or how many zxids
        are left. Raises Again, ArchiveError."""
        run = _newest(self._store)
        if run.name != self._run.name:
            raise Again(f"{self._name}: another run has begun")
        self._run = run
        read, zxid = self._read, run.end.zxid
        found: list[Sequence[Written]] = []
        for each in [each for each in run.segments if each.end.entries > read][: self._polls.together]:
            content = past.read(self._store, run, each)
            if content.start.entries > read:
                raise Again(f"{self._name}: entries after the first {read} are missing")
            found.append(content.records[read - content.start.entries :])
            read, zxid = content.end.entries, content.end.zxid
        complete = complete_up_to(self._store, run)  # it may be ahead of the listing
        reached = complete if complete.entries <= read else run.end if run.end.entries <= read else None
        return found, reached, run.end.zxid - zxid
