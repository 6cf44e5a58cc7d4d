"""`zketcd follow` in a simulated world: the whole command, on a host of its own.

Clocks and chance of the command are the simulated ones of its host, what it prints goes into the trace, and
its limits are small, so that it writes snapshots and several entries where few znodes change.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

from typing_extensions import override

from pipeline.errors import Failure
from pipeline.etcd import load
from pipeline.etcd.limits import Limits
from pipeline.etcd.requests import TIMEOUT
from pipeline.follow import copying, finishing, from_etcd, lost, output, retrying, target
from pipeline.follow.from_etcd import InEtcd
from pipeline.follow.options import Options
from pipeline.follow.output import DONE
from pipeline.follow.source import OtherSource
from proof.simulation.etcd import Cluster
from proof.simulation.proxies import PREFIX, client_of, end_process
from proof.simulation.seams import NEXT_LEVELS
from proof.simulation.transports import Transports
from proof.simulation.world import Host, World, running_host
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.log.record import TreeNotServable
from proxy.support.environment import HOST
from schema.keys import Keyspace
from schema.record import Seal

#: Modules of the command that read clocks or draw random values, by the name of the module that they use.
CLOCKS = (copying, finishing, from_etcd, output, retrying)
CHANCE = (load, target)
SOURCE = "etcd://etcd1/zketcd"
ADDRESS = "http://copy1:2379"  # of the copy


def replaced() -> list[tuple[Any, str, Any]]:
    """For `seams.installed`."""
    return [
        *((module, "time", HOST.clock) for module in CLOCKS),
        *((module, "secrets", HOST.randomness) for module in CHANCE),
    ]


class _Traced(io.TextIOBase):
    """What followers print, as lines of the trace."""

    def __init__(self, world: World, said: Callable[[str], None]) -> None:
        self._world = world
        self._said = said

    @override
    def write(self, text: str) -> int:
        if text.strip():
            self._world.trace(running_host().name, text.strip())
            self._said(text)
        return len(text)


@contextlib.contextmanager
def printing(world: World, said: Callable[[str], None]) -> Iterator[None]:
    """Take what the command prints. `said` gets it, too."""
    stream = _Traced(world, said)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield


class Follower:
    """One follower, through all of its lives; the nemesis takes it for a proxy without clients."""

    server = None
    serving = False

    def __init__(self, name: str, source: Cluster, to: Cluster, options: Options) -> None:
        self.world = source.world
        self.name = name
        self.host: Host | None = None
        self.transports = Transports()
        self.others: dict[Host, None] = {}
        #: Why it has ended by itself; "": it has not.
        self.ended = ""
        #: Its exit code, if it has come to its end.
        self.code: int | None = None
        self.options = options
        #: Called with the reason why it cannot go on.
        self.on_failure: Callable[[Exception], None] = lambda _error: None
        self._is_other_source = False
        self._source = source
        self._to = to

    @property
    def alive(self) -> bool:
        """Whether its process runs, or at least stands still."""
        return self.host is not None and not self.host.dead

    def start(self) -> None:
        """Start the command. It begins anew if the last one has found another source."""
        self.ended, self.code = "", None
        host = self.host = Host(self.world, self.name)
        host.levels = NEXT_LEVELS
        host.on_kill = self.kill
        options = self.options._replace(overwrite=self._is_other_source)
        self._is_other_source = False
        self.world.trace(self.name, f"starts{' over' if options.overwrite else ''}")
        host.call_soon(lambda: host.create_task(self._run(host, options), name="follow"))

    async def _run(self, host: Host, options: Options) -> None:
        keys = Keyspace(PREFIX)
        clients = [client_of(cluster, host) for cluster in (self._source, self._to)]
        source, etcd = clients
        try:
            there = retrying.retrying(source, "the source's etcd")
            self.code = await self._command(there, etcd, keys, options)
            self.ended = f"exit code {self.code}"
        except (Failure, EtcdError, TreeNotServable) as error:
            self._is_other_source = isinstance(error, OtherSource)
            self.ended = f"{type(error).__name__}: {error}"
            self.on_failure(error)
        self.world.trace(self.name, f"ends: {self.ended}")
        host.call_soon(self.kill)

    async def _command(self, source: Etcd, etcd: Etcd, keys: Keyspace, options: Options) -> int:
        return await copying.follow(InEtcd(SOURCE, source, keys), etcd, keys, options)

    @property
    def is_done(self) -> bool:
        """Whether it has done what its options say."""
        return self.code == DONE

    def kill(self, *, silently: bool = False) -> None:
        """End at once; `silently` makes no difference to etcd."""
        if self.alive:
            assert self.host is not None
            for cluster in (self._source, self._to):
                end_process(cluster, self.host)

    def pause(self) -> None:
        """Stand still."""
        if self.host is not None:
            self.host.pause()

    def resume(self) -> None:
        """Continue."""
        if self.host is not None and self.host.paused:
            self.host.resume()


class Promoter(Follower):
    """`--finish --source-lost`: it completes the copy, and seals the source as soon as it can reach it."""

    @override
    async def _command(self, source: Etcd, etcd: Etcd, keys: Keyspace, options: Options) -> int:
        etcd = retrying.retrying(etcd)
        position = await lost.promote(etcd, keys, Limits())
        assert position.origin is not None
        cluster_id = (await etcd.status(TIMEOUT)).cluster_id
        where = Seal(ADDRESS, PREFIX, cluster_id, HOST.clock.time_ns() // 1_000_000)
        await lost.seal_source(source, keys, SOURCE, position.origin, where)
        return DONE
