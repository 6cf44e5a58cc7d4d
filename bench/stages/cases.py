"""What is run: one of the bench's workloads, or a change that many watch, so many clients, so many at a time.

Each run has a proxy and an etcd of its own, runs until every reply has arrived, and verifies the tree.
"""

import asyncio
import cProfile
import gc
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from bench import wire
from bench.stages.clients import Asker, Loader, until
from bench.stages.etcd import CountingEtcd, Counts, client_of
from bench.stages.loop import MeteredLoop
from bench.stages.meter import OF_THE_PROXY, Meter
from bench.stages.parts import told
from bench.workloads import WORKLOADS, preparation
from proxy.config import Config, parse
from proxy.etcd.access import Access
from proxy.log.upkeep.snapshots import run_process
from proxy.server import Server
from serve.__main__ import collect_rarely

FANOUT = "fanout"
NAMES = (*WORKLOADS, FANOUT)
ETCD = ("txns", "puts", "deletes", "compares", "bytes", "ranges")
"""What is counted of etcd's work, a request."""
# As it comes, but for snapshots: their writer would not find this etcd.
CONFIG = parse(
    ["--listen", "127.0.0.1:0", "--max-client-connections", "0", "--snapshot-log-requests", "1000000000"]
)
_ROOT = b"/bench"
_WATCHERS = 100  # sessions that hold a case's watches
_FANNED = b"/fanned"


class Case(NamedTuple):
    """A run's shape. A `fanout` has `connections` sessions that see each change of one node."""

    name: str
    connections: int = 64
    depth: int = 32
    watches: int = 0
    """Watches that others have set on other nodes; none of them fires."""


class Figures(NamedTuple):
    """What a run took; a fanout's requests are the events that the watchers got."""

    requests: int
    etcd: Counts
    nanos: Mapping[str, int]
    python_calls: Mapping[str, int]
    c_calls: Mapping[str, int]

    @property
    def per_request(self) -> dict[str, float]:
        """What etcd was asked, for each request."""
        return {name: getattr(self.etcd, name) / self.requests for name in ETCD}

    def microseconds(self) -> dict[str, float]:
        """CPU time of a request by stage of the proxy."""
        return {stage: self.nanos.get(stage, 0) / self.requests / 1000 for stage in OF_THE_PROXY}

    def calls_in(self, stage: str) -> tuple[float, float]:
        """Calls of Python's functions, and of C's, a request, in one stage."""
        of_python, of_c = self.python_calls.get(stage, 0), self.c_calls.get(stage, 0)
        return of_python / self.requests, of_c / self.requests

    def calls(self) -> tuple[float, float]:
        """The same, in all stages of the proxy."""
        of_python, of_c = zip(*map(self.calls_in, OF_THE_PROXY), strict=True)
        return sum(of_python), sum(of_c)


def run(
    case: Case, each: int, warm_up: int, *, counting: bool = False, profile: cProfile.Profile | None = None
) -> Figures:
    """Run a case, `each` requests (or changes that are watched) by every connection after so many to warm up.

    Raises BenchError for a wrong reply or a wrong tree. With `counting` the calls are counted, and the times
    mean nothing; a `profile` is on while requests are handled.
    """
    meter = Meter(counting=counting, profile=profile)
    work = _fanout if case.name == FANOUT else _load
    with asyncio.Runner(loop_factory=lambda: MeteredLoop(meter)) as runner:
        return runner.run(work(case, each, warm_up, meter))


@asynccontextmanager
async def serving(
    meter: Meter, config: Config = CONFIG, *, metered: bool = True
) -> AsyncIterator[tuple[Server, CountingEtcd]]:
    """A server, and the etcd that it has for itself. `metered`: whether its parts tell the meter."""
    etcd = CountingEtcd(meter)
    client = client_of(etcd)
    with told(meter) if metered else nullcontext():
        server = Server(config, client, partial(run_process, Access((etcd.address,))))
        await server.start(lambda _count: None)
        try:
            yield server, etcd
        finally:
            await server.stop()
            await client.close()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """The garbage collector as a proxy sets it; afterwards as it was."""
    thresholds = gc.get_threshold()
    gc.collect()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


async def _load(case: Case, each: int, warm_up: int, meter: Meter) -> Figures:
    async with serving(meter) as (server, etcd):
        admin = Asker(server, meter)
        await admin.connected()
        limit = case.connections * (each + warm_up)
        workload = WORKLOADS[case.name](_ROOT, case.connections, limit)
        for requests in preparation(workload):
            await admin.call_many(requests)
        await _set_watches(server, admin, case.watches, meter)
        loaders = [
            Loader(server, meter, workload.stream(number), case.depth) for number in range(case.connections)
        ]
        for loader in loaders:
            await loader.connected()
        with collecting_rarely():
            await drive(loaders, warm_up)
            before = etcd.counts.copy()
            with meter.running():
                await drive(loaders, each)
            counts = etcd.counts.since(before)
        workload.verify(admin, [loader.answered for loader in loaders])
        return _figures(case.connections * each, counts, meter)


async def drive(loaders: Sequence[Loader], each: int) -> None:
    """Have each send so many requests more, and wait for all replies. Raises BenchError for a wrong one."""
    for loader in loaders:
        loader.allow(each)

    def is_over() -> bool:
        for loader in loaders:
            loader.go_on()
        return all(loader.is_idle for loader in loaders)

    await until(is_over)


async def _set_watches(server: Server, admin: Asker, count: int, meter: Meter) -> None:
    """So many watches, by some sessions that each watch the same nodes."""
    paths = [b"/watched%04d" % number for number in range(-(-count // _WATCHERS))]
    await admin.call_many((wire.CREATE, wire.create_body(path, b"")) for path in paths)
    for _ in range(_WATCHERS if paths else 0):
        watcher = Asker(server, meter)
        await watcher.connected()
        watcher.ask(*((wire.EXISTS, wire.text(path) + b"\1") for path in paths))
        await watcher.expect(len(paths))


async def _fanout(case: Case, each: int, warm_up: int, meter: Meter) -> Figures:
    async with serving(meter) as (server, etcd):
        admin = Asker(server, meter)
        await admin.connected()
        await admin.call_many([(wire.CREATE, wire.create_body(_FANNED, b""))])
        watchers = [Asker(server, meter) for _ in range(case.connections)]
        for watcher in watchers:
            await watcher.connected()
        counts = Counts()
        with collecting_rarely():
            for number in range(warm_up + each):
                for watcher in watchers:
                    watcher.frames.clear()
                    watcher.ask((wire.EXISTS, wire.text(_FANNED) + b"\1"))
                before = etcd.counts.copy()
                with meter.running() if number >= warm_up else nullcontext():
                    await admin.call_many([(wire.SET_DATA, wire.set_body(_FANNED, b""))])
                    await until(lambda: all(len(watcher.frames) == 2 for watcher in watchers))
                if number >= warm_up:
                    counts = counts.plus(etcd.counts.since(before))
        return _figures(case.connections * each, counts, meter)


def _figures(requests: int, counts: Counts, meter: Meter) -> Figures:
    return Figures(requests, counts, meter.nanos, meter.python_calls, meter.c_calls)
