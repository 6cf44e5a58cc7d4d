"""Replays zketcd's log between two marks, from the newest state before the first one."""

import gc
from collections.abc import Callable

from pipeline.etcd.log import DataLost, Mark
from pipeline.etcd.record import NotReadable, record_of
from pipeline.etcd.requests import TIMEOUT, until_known_or_full
from pipeline.traffic.outcomes import Recorder
from pipeline.traffic.table import TrafficRow
from proxy.etcd.interface import Etcd
from proxy.log.follow.catch_up import Truncated, read_missed
from proxy.log.load.replay import Execute, Replay
from proxy.log.load.start import NotInLog, Wanted, load_as_of
from proxy.log.record import TreeNotServable
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.keys import Keyspace

_LOAD_TIMEOUT = 60.0  # seconds for an etcd that does not answer


class KeptState:
    """The tree after the last replay, for a replay that continues from there: one tree at a time."""

    def __init__(self) -> None:
        self._at: tuple[bytes, int, Mark] | None = None  # prefix, etcd's cluster, and how far
        self._machine: Machine | None = None

    def take(self, keys: Keyspace, cluster_id: int, mark: Mark) -> Machine | None:
        """Remove and return the state at `mark`, if it is the one that is kept."""
        machine, self._machine = self._machine, None
        return machine if self._at == (keys.prefix, cluster_id, mark) else None

    def put(self, keys: Keyspace, cluster_id: int, mark: Mark, machine: Machine) -> None:
        """Keep the state at `mark` instead of the one before."""
        self._at, self._machine = (keys.prefix, cluster_id, mark), machine


async def replayed(
    etcd: Etcd, keys: Keyspace, start: Mark, end: Mark, *, lossy: bool = False, kept: KeptState | None = None
) -> list[TrafficRow]:
    """The rows of the requests after `start`, up to `end`, with their outcomes.

    All of them are in memory meanwhile. Otherwise as `replay`.
    """
    rows: list[TrafficRow] = []

    def again() -> Execute:
        rows.clear()
        return Recorder(start.applied, rows.append).execute

    await replay(etcd, keys, start, end, again, lossy=lossy, kept=kept)
    return rows


async def replay(
    etcd: Etcd,
    keys: Keyspace,
    start: Mark,
    end: Mark,
    again: Callable[[], Execute],
    *,
    lossy: bool = False,
    kept: KeptState | None = None,
) -> None:
    """Execute the requests up to `end`, from a state that is not newer than `start`.

    `again` is called for each try; its result executes the requests. The tree is in memory meanwhile, and
    also afterwards if there is `kept`: a replay that begins where the last one ended needs no load. `lossy`:
    if entries after `start` were truncated, begin with the oldest that exists. Raises DataLost, NotReadable,
    EtcdError.
    """
    try:
        with uncollected():
            if kept is None:
                await _loaded(etcd, keys, start, end, lossy, again)
                return
            cluster_id = (await until_known_or_full(etcd.status, TIMEOUT)).cluster_id
            machine = kept.take(keys, cluster_id, start)
            if machine is None or not await _went_on(etcd, keys, machine, start, end, again()):
                machine = await _loaded(etcd, keys, start, end, lossy, again)
                gc.freeze()  # nor afterwards
            kept.put(keys, cluster_id, end, machine)
    except TreeNotServable as error:
        raise NotReadable(str(error)) from error


async def _loaded(
    etcd: Etcd, keys: Keyspace, start: Mark, end: Mark, lossy: bool, executes: Callable[[], Execute]
) -> Machine:
    """The state at `end`, from a snapshot that is not newer than `start`. Raises as `replayed`."""
    # A log from its beginning has no snapshot before it.
    wanted = Wanted(upto=end.revision, since=start.revision or 1)
    try:
        found = await load_as_of(etcd, keys, wanted, timeout=_LOAD_TIMEOUT, executes=executes)
    except NotInLog as error:
        _, record = await record_of(etcd, keys)
        imported = not start.revision and record.previous is None
        if not imported and not lossy:
            raise DataLost(
                f"{error}, behind position {start.revision}, where the stream stood. Set"
                " failOnDataLoss=false to continue without the lost entries, or begin with a new checkpoint"
            ) from error
        oldest = record.previous or record.current
        assert oldest is not None  # else the log is whole
        wanted = Wanted(upto=end.revision, since=oldest.position)
        found = await load_as_of(etcd, keys, wanted, timeout=_LOAD_TIMEOUT, executes=executes)
    return found.machine


async def _went_on(
    etcd: Etcd, keys: Keyspace, machine: Machine, start: Mark, end: Mark, execute: Execute
) -> bool:
    """Bring a state from `start` to `end`; False, the state as it was, if entries between were truncated."""
    try:
        caught = await until_known_or_full(read_missed, etcd, keys, machine.applied, start.revision)
    except Truncated:
        return False
    await Replay(keys, machine, caught, lambda _count: None, execute).run(end.revision)
    return True
