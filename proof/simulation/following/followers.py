"""The processes of `python -m pipeline follow` and `export --follow`: the real code on simulated hosts.

An operator's service manager starts a follower again when it has ended for want of etcd. One that another
follower has replaced is not started again.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pipeline.errors import Failure
from pipeline.etcd.requests import LoadRefused
from proof.simulation.etcd import Cluster
from proof.simulation.proxies import PREFIX, client_of, end_process
from proof.simulation.world import Host
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError
from schema.keys import Keyspace

Command = Callable[[EtcdClient, Keyspace], Awaitable[int]]
_AGAIN = (0.5, 3.0)  # seconds until a process that has ended is started again


class Ended(NamedTuple):
    """Why a process has ended, which no fault has killed."""

    error: Exception | None
    code: int

    @property
    def is_expected(self) -> bool:
        """Whether faults explain it."""
        return self.error is None or isinstance(self.error, LoadRefused | EtcdError)


class Process:
    """One process of a command."""

    def __init__(self, cluster: Cluster, name: str, command: Command) -> None:
        self.name = name
        self.ended: Ended | None = None
        self._cluster = cluster
        self.host = Host(cluster.world, name)
        cluster.world.trace(name, "starts")
        self.host.call_soon(lambda: self.host.create_task(self._run(command), name=name))

    @property
    def alive(self) -> bool:
        """Whether it runs, or at least stands still."""
        return not self.host.dead

    async def _run(self, command: Command) -> None:
        etcd = client_of(self._cluster, self.host)
        try:
            self.ended = Ended(None, await command(etcd, Keyspace(PREFIX)))
        except (Failure, EtcdError, OSError) as error:
            self.ended = Ended(error, 1)
        self._cluster.host.call_soon(self.kill)

    def kill(self) -> None:
        """End at once, wherever it is."""
        if self.alive:
            end_process(self._cluster, self.host)


class Service:
    """Processes of one command under one name, of which one should run."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        command: Command,
        on_end: Callable[[str, Ended], None],
        *,
        may_overlap: bool = True,
    ) -> None:
        """`on_end` gets the name of a process, and why it has ended without a fault."""
        self.name = name
        #: Whether two may run: a fence or the like sees to it that only one has an effect.
        self.may_overlap = may_overlap
        self.processes: list[Process] = []
        #: Whether a process that has ended is started again.
        self.is_wanted = True
        self._cluster = cluster
        self._command = command
        self._on_end = on_end
        self._random = cluster.world.random(f"service {name}")
        self._look()

    @property
    def living(self) -> list[Process]:
        """Those that run or stand still."""
        return [process for process in self.processes if process.alive]

    def start(self) -> None:
        """One more process, whether one runs or not."""
        self.processes.append(Process(self._cluster, self.name, self._command))

    def kill(self) -> None:
        """End all."""
        for process in self.processes:
            process.kill()
        self._forget()

    def _look(self) -> None:
        self._forget()
        if self.is_wanted and not self.living:
            self.start()
        self._cluster.host.call_later(self._random.uniform(*_AGAIN), self._look)

    def _forget(self) -> None:
        """Report those that have ended, once."""
        for process in [process for process in self.processes if not process.alive]:
            self.processes.remove(process)
            if process.ended is not None:
                self._on_end(process.name, process.ended)
