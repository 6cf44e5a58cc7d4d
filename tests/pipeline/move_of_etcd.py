"""`make prove-move` with a zketcd as the source: a tree moves to another etcd and back amid writes and kills.

Clients all the time, by one address: two ClickHouse replicas that insert, kazoo, and Curator. It is
docs/region.md as a program: follow, check, finish, the way back. The commands that finish are killed as well.
In the end each acknowledged write is there once, and kazoo still has its session.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random

from kazoo.client import KazooClient

from lab.servers import EtcdServer, ZketcdServer
from lab.servers.clickhouse import ClickHouseServer
from tests.clients.clickhouse_tables import check, writing
from tests.clients.jvm import java_virtual_machine
from tests.pipeline.adders import Curator, curator_adder, kazoo_adder
from tests.pipeline.follow.running import PipelineCommand
from tests.pipeline.moving import PREFIX, STANDS_BY, TIMEOUT_MS, Moving

_KILLS = 3  # of the commands that finish a move


class _Side:
    """A region: an etcd, and two zketcds whose clocks differ by an hour."""

    def __init__(self, name: str, etcd: EtcdServer, proxies: Sequence[ZketcdServer]) -> None:
        self.name = name
        self.etcd = etcd
        self.proxies = proxies
        self.tree = f"etcd://{etcd.address}{PREFIX}"
        self.to_etcd = ("--etcd", etcd.endpoint, "--prefix", PREFIX)


class MoveOfEtcd(Moving):
    """The whole move."""

    def __init__(self, stack: ExitStack, seconds: float) -> None:
        super().__init__(stack, seconds)
        self._random = Random(1)
        self._north, self._south = self._side("north"), self._side("south")

    def run(self) -> None:
        """There and back."""
        north, south = self._north, self._south
        self._launch(north.etcd, south.etcd, *north.proxies)
        self._serving(north.etcd, south.etcd, *north.proxies)
        self._lead_to([*north.proxies, *south.proxies])
        replicas = self._clickhouse()
        jvm = self._stack.enter_context(java_virtual_machine())
        reader = self._kazoo()
        curator = Curator(jvm, self._balancer.address, TIMEOUT_MS)
        self._stack.callback(curator.stop)
        curator.start()
        self._adders = [kazoo_adder(reader), curator_adder(curator)]
        session = reader.client_id
        with writing(self._writers), ExitStack() as adding:
            try:
                for adder in self._adders:
                    adding.enter_context(adder)
                self._move(north, south, replicas)
                self._move(south, north, replicas, "--overwrite")
            except BaseException:
                self._seconds = 0.0  # nothing waits any more
                raise
        self._check_all(reader, session, replicas)

    def _check_all(
        self, reader: KazooClient, session: tuple[int, bytes], replicas: tuple[ClickHouseServer, ...]
    ) -> None:
        one, two = replicas
        check(self._writers, (one, two), self._left())
        for adder in self._adders:
            self._check(adder, reader)
        assert reader.client_id == session, "kazoo has lost its session"
        self.figures["ClickHouse: blocks"] = sum(writer.blocks for writer in self._writers)
        self.figures["ClickHouse: longest wait, s"] = max(writer.longest_wait for writer in self._writers)

    def _move(self, source: _Side, to: _Side, replicas: Sequence[ClickHouseServer], *begin: str) -> None:
        follow = ("follow", source.tree, *to.to_etcd)
        self._command(*follow, *begin, "--until-level")
        follower = PipelineCommand(*follow)
        self._launch(follower)
        self._says(follower, "level at zxid")
        self._launch(*to.proxies)
        for proxy in to.proxies:
            self._says(proxy, STANDS_BY)
        for victim in (*source.proxies, source.etcd, to.etcd):
            self._kill(victim, self._serving)
        self._kill(follower, lambda follower: self._says(follower, "level at zxid"))
        self._kill(to.proxies[0], lambda proxy: self._says(proxy, STANDS_BY))
        (self.figures[f"to the {to.name}: follow --check"],) = self._command(*follow, "--check")
        begun = time.monotonic()
        self._finish(follower, PipelineCommand(*follow, "--finish"))
        self._command(*follow, "--finish")
        self.figures[f"to the {to.name}: finished after, s"] = time.monotonic() - begun
        for proxy in source.proxies:
            assert proxy.wait(self._left()) == 1, proxy.log_tail()
            assert f"was moved to the prefix {PREFIX} of the etcd at" in proxy.log_text()
        self._serving(*to.proxies)
        self._created(1)
        self.figures[f"to the {to.name}: creates go on after, s"] = time.monotonic() - begun
        self._insert(replicas)
        self.figures[f"to the {to.name}: inserts go on after, s"] = time.monotonic() - begun
        for victim in (*to.proxies, to.etcd):
            self._kill(victim, self._serving)

    def _finish(self, follower: PipelineCommand, finishing: PipelineCommand) -> None:
        """Kill what finishes the move, at any step of it."""
        for _ in range(_KILLS):
            self._launch(finishing)
            time.sleep(self._random.uniform(0.0, 3.0))
            for command in (finishing, follower):
                if command.alive:
                    print(f"{time.monotonic() - self._begun:6.0f} s  kill {command.name}", flush=True)
                    command.kill()
                    self.figures["kills"] = int(self.figures["kills"]) + 1
            self._launch(follower)  # its supervisor does

    def _side(self, name: str) -> _Side:
        etcd = EtcdServer()
        return _Side(name, etcd, [self._proxy(etcd, ahead) for ahead in (-1800, 1800)])
