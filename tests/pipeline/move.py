"""`make prove-move`: three members move to zketcd and back amid writes, while everything is killed in turn.

Clients all the time, by one address: two ClickHouse replicas that insert, kazoo, Curator with its
EnsembleTracker, Spark's masters with a worker. The clocks of the members and of the zketcds differ by up to
two hours. It is docs/migration.md as a program: follow, check, cut-over, the way back. In the end both sides
are equal in every field, each acknowledged write is there, and no client is on the side that was left.

`--source zketcd`: a tree moves from one etcd to another, and back (`move_of_etcd`).
"""

import argparse
import contextlib
import logging
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kazoo.client import KazooClient

from lab.servers import EtcdServer, ZooKeeperServer, free_port, wait_until
from lab.servers.clickhouse import ClickHouseServer
from lab.servers.four_letter import four_letter_word
from lab.servers.process import ServerProcess
from proof.torture.host import faketime_library
from tests.clients.clickhouse_tables import check, writing
from tests.clients.jvm import java_virtual_machine
from tests.clients.spark import SparkMaster, SparkWorker
from tests.pipeline.adders import Curator, curator_adder, kazoo_adder
from tests.pipeline.follow.running import PipelineCommand
from tests.pipeline.move_of_etcd import MoveOfEtcd
from tests.pipeline.moving import PREFIX, STANDS_BY, TIMEOUT_MS, Moving, clock


class Member(ZooKeeperServer):
    """A member of the ensemble, on a host whose clock is so many seconds ahead."""

    def __init__(self, ahead: int, **given: Any) -> None:
        super().__init__(**given)
        self._ahead = ahead

    def environment(self) -> Mapping[str, str]:
        """The wall clock is the library's; the monotonic clock stays."""
        return {**super().environment(), **clock(self._ahead)}


class Move(Moving):
    """The whole move."""

    def __init__(self, stack: ExitStack, folder: Path, seconds: float) -> None:
        super().__init__(stack, seconds)
        self._back_folder = folder / "back"
        self._etcd = EtcdServer()
        self._to_etcd = ("--etcd", self._etcd.endpoint, "--prefix", PREFIX)
        self._tree = f"etcd://{self._etcd.address}{PREFIX}"
        self._members = ensemble()
        self._proxies = [self._proxy(self._etcd, ahead) for ahead in (-1800, 1800)]
        self._spark: list[SparkMaster | SparkWorker] = []

    def run(self) -> None:
        """There and back."""
        self._launch(self._etcd, *self._members)
        self._serving(self._etcd, *self._members)
        self._lead_to(self._members)
        replicas = self._clickhouse()
        masters = [SparkMaster(self._balancer.address, "/spark") for _ in range(2)]
        worker = SparkWorker("spark://" + ",".join(master.address for master in masters))
        self._spark = [*masters, worker]
        self._launch(*self._spark)
        jvm = self._stack.enter_context(java_virtual_machine())
        reader = self._kazoo()
        curator = Curator(jvm, self._balancer.address, TIMEOUT_MS)
        self._stack.callback(curator.stop)
        curator.start()
        self._adders = [kazoo_adder(reader), curator_adder(curator)]
        with writing(self._writers), ExitStack() as adding:
            try:
                for adder in self._adders:
                    adding.enter_context(adder)
                self._between(self._there(replicas, curator))
                self._back(replicas)
            except BaseException:
                self._seconds = 0.0  # nothing waits any more
                raise
        check(self._writers, replicas, self._left())
        for adder in self._adders:
            self._check(adder, reader)
        self.figures["ClickHouse: blocks"] = sum(writer.blocks for writer in self._writers)
        self.figures["ClickHouse: longest wait, s"] = max(writer.longest_wait for writer in self._writers)

    # -- the parts ------------------------------------------------------------------------------------------

    def _there(self, replicas: Sequence[ClickHouseServer], curator: Curator) -> Mapping[str, int]:
        """Returns how many creates of each folder were acknowledged by the old side."""
        source = self._members[0]
        follow = ("follow", str(source.data_dir), *self._to_etcd)
        follower = PipelineCommand(*follow, "--log-timeout", f"{self._seconds:.0f}")
        self._launch(follower)
        self._says(follower, "level at zxid")
        self._launch(*self._proxies)
        for proxy in self._proxies:
            self._says(proxy, STANDS_BY)
        for victim in (*self._members, follower, self._etcd):
            self._kill(victim, self._serving)
        for victim in self._proxies:
            self._kill(victim, lambda proxy: self._says(proxy, STANDS_BY))
        (self.figures["there: follow --check"],) = self._command(*follow, "--check")
        begun = self._cut()
        # Curator's EnsembleTracker has replaced the balancer's address by the members'. So what uses Curator
        # has to be restarted, as docs/migration.md says: Spark's masters too.
        assert set(curator.servers.split(",")) == {member.address for member in self._members}
        for master in self._spark:
            if isinstance(master, SparkMaster) and master.alive:
                master.kill()
        curator.stop()
        zxid = self._settled()
        moved = {adder.folder: adder.done for adder in self._adders}
        for server in (*self._members, *self._proxies):
            server.pause()  # else each side ends the sessions that have no client, and they differ
        self._command(*follow, "--finish", "--keep-sessions", "--zxid", hex(zxid))
        self.figures["there: cut-over to finished, s"] = time.monotonic() - begun
        self.figures["there: verify"] = self._verified(source.data_dir)
        for proxy in self._proxies:
            proxy.resume()
        self._serving(*self._proxies)
        curator.start()
        self._resume(self._proxies, begun, "there", replicas)
        for member in self._members:
            member.resume()
        return moved

    def _between(self, moved: Mapping[str, int]) -> None:
        copier = PipelineCommand("export", str(self._back_folder), "--follow", *self._to_etcd)
        self._launch(copier)
        self._says(copier, "level at zxid")
        for victim in (*self._proxies, copier, self._etcd):
            self._kill(victim, self._serving)
        self._serving(*self._members)
        for member in self._members:
            clients = four_letter_word(member.port, "cons", timeout=30.0).count("sid=")
            assert not clients, f"{clients} clients are connected to {member.name}"
        for folder, done in moved.items():
            there = children(self._members[0], folder, self._left())
            assert done <= there <= done + 1, f"{folder} has {there} nodes on the old side, not {done}"
        copier.kill()

    def _back(self, replicas: Sequence[ClickHouseServer]) -> None:
        for member in self._members:
            member.kill()
        begun = self._cut()
        for proxy in self._proxies:
            proxy.stop(self._left())
        self._command("export", str(self._back_folder), "--follow", *self._to_etcd, "--until-level")
        self.figures["back: verify"] = self._verified(self._back_folder)
        for member in self._members:
            shutil.rmtree(member.data_dir / "version-2")
            shutil.copytree(self._back_folder / "version-2", member.data_dir / "version-2")
        for member in self._members:
            member.launch()
        self._serving(*self._members)
        self._resume(self._members, begun, "back", replicas)

    # -- clients --------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        super()._go_on()
        self._worker_is_known()

    def _worker_is_known(self) -> bool:
        for server in self._spark:
            if not server.alive:  # a leader that loses its connection ends itself; a supervisor starts it
                server.launch()
        for master in self._spark:
            with contextlib.suppress(OSError, ValueError, KeyError):
                if isinstance(master, SparkMaster) and master.status == "ALIVE":
                    return any(state == "ALIVE" for _, state in master.known("workers"))
        return False

    # -- steps ----------------------------------------------------------------------------------------------

    def _settled(self) -> int:
        """The zxid at which all members stay: what had been sent to them is applied."""
        seen: list[int] = []

        def settled() -> bool:
            seen[:], before = map(zxid_of, self._members), seen.copy()
            return before == seen and len(set(seen)) == 1

        wait_until(settled, "the members apply what was sent to them", self._left(), interval=0.5)
        return seen[0]

    def _resume(
        self,
        servers: Sequence[ServerProcess],
        begun: float,
        which: str,
        replicas: Sequence[ClickHouseServer],
    ) -> None:
        self._lead_to(servers)
        self.figures[f"{which}: without a server, s"] = time.monotonic() - begun
        self._created(1)
        self.figures[f"{which}: creates' pause, s"] = time.monotonic() - begun
        self._insert(replicas)
        self.figures[f"{which}: inserts' pause, s"] = time.monotonic() - begun
        self._wait(self._worker_is_known, "one of Spark's masters leads, and knows the worker")
        self._go_on()

    def _verified(self, folder: Path) -> str:
        """Compare a data directory with the tree in etcd, every field of every znode; what was equal."""
        left, _, result = self._command("verify", str(folder), self._tree)
        return f"{result}: {left.split()[1]} znodes"


def ensemble() -> list[Member]:
    """Three members, not started, each on a host with a clock of its own."""
    ports = {number: (free_port(), free_port(), free_port()) for number in (1, 2, 3)}
    settings = {
        # With the address for clients, as 3.5 and later want it: Curator's EnsembleTracker reads it.
        f"server.{number}": f"127.0.0.1:{one}:{two};127.0.0.1:{port}"
        for number, (one, two, port) in ports.items()
    }
    settings |= {"initLimit": "60", "syncLimit": "30", "standaloneEnabled": "false"}
    members = []
    for number, ahead in zip(ports, (0, 3600, -3600), strict=True):
        member = Member(
            ahead,
            settings=settings,
            port=ports[number][2],
            tick_time=1000,
            max_session_timeout=TIMEOUT_MS,
            max_client_connections=0,
            system_properties={"zookeeper.commitLogCount": "100000"},
        )
        member.data_dir.mkdir(exist_ok=True)
        (member.data_dir / "myid").write_text(str(number))
        members.append(member)
    return members


def zxid_of(member: ZooKeeperServer) -> int:
    """The last zxid of a member."""
    found = re.search(r"Zxid: 0x([0-9a-f]+)", four_letter_word(member.port, "srvr", timeout=30.0))
    assert found is not None
    return int(found[1], 16)


def children(member: ZooKeeperServer, path: str, seconds: float) -> int:
    """How many children a node has on a member."""
    client = KazooClient(member.address)
    client.start(seconds)
    try:
        return len(client.get_children(path))
    finally:
        client.stop()
        client.close()


def main() -> int:
    """Move, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.move")
    parser.add_argument("--source", choices=("zookeeper", "zketcd"), default="zookeeper")
    parser.add_argument("--minutes", type=float, default=60.0, help="a run that takes longer fails (60)")
    options = parser.parse_args()
    seconds = 60 * options.minutes
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # it warns of each lost connection
    begun = time.monotonic()
    with TemporaryDirectory(prefix="zketcd-move-") as folder, ExitStack() as stack:
        of_etcd = options.source == "zketcd"
        move = MoveOfEtcd(stack, seconds) if of_etcd else Move(stack, Path(folder), seconds)
        move.run()
        figures = {**move.figures, "seconds in all": time.monotonic() - begun}
    if not faketime_library():
        print("clocks: all the same (faketime is not installed: make setup-test)")
    for name, value in figures.items():
        print(f"{name:<28} {value:.1f}" if isinstance(value, float) else f"{name:<28} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
