"""etcd's version changes under load, member by member, as its upgrade guide has it: 3.4, then each 3.5."""

import time
from contextlib import ExitStack

from kazoo.client import KazooClient, KazooState

from lab.client.blocking import EPHEMERAL, Client
from lab.servers import ZketcdServer, wait_until
from lab.servers.clusters import Member, running_cluster
from lab.servers.etcd import VERSIONS
from proxy.etcd.versions import warnings
from tests.faults.agreement import assert_same
from tests.faults.conftest import Start
from tests.faults.workers import BUSY, Worker, Workers
from tests.faults.writers import Writers

_PROXIES = 3
_LONGEST_S = 15.0  # without a write; 3 s on an idle machine, since a leader that stops costs an election


class _Timed(Worker):
    """A client that writes one by one, and knows how long each write took."""

    def __init__(self, port: int) -> None:
        super().__init__(Client(port), f"/timed-{port}")
        self.took = [0.0]

    def work(self) -> None:
        began = time.monotonic()
        self.client.write(self.own, b"x", self.rounds)
        self.took.append(time.monotonic() - began)
        self.rounds += 1

    def longest(self) -> float:
        """Since the last question."""
        took, self.took = self.took, [0.0]
        return max(took)


def test_a_rolling_change_of_version_loses_no_write_and_no_session(start: Start) -> None:
    oldest, *newer = VERSIONS
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(version=oldest))
        members = cluster.members
        assert {member.version() for member in members} == {oldest}
        proxies = [_proxy(start, [*members[n:], *members[:n]]) for n in range(_PROXIES)]
        ports = [proxy.port for proxy in proxies]
        states: list[str] = []
        kazoo = KazooClient(",".join(f"127.0.0.1:{port}" for port in ports), timeout=30)
        kazoo.add_listener(states.append)
        kazoo.start(timeout=30)
        stack.callback(kazoo.close)
        stack.callback(kazoo.stop)
        kazoo.create("/mine", ephemeral=True)
        holder = stack.enter_context(Client(ports[0]))
        holder.create("/held", b"", EPHEMERAL)
        writers = stack.enter_context(Writers(*ports, count=_PROXIES))
        timed = stack.enter_context(Workers([_Timed(port) for port in ports]))
        for version in newer:
            # The leader comes last, as an operator does it: else each stop of a leader elects another one.
            for member in sorted(members, key=Member.is_leader):
                longest = _LONGEST_S + BUSY * (writers.calm() + timed.calm())
                was_leader = member.is_leader()
                [client.longest() for client in timed.each]
                member.stop()
                member.next_version = version
                member.start()
                assert member.version() == version
                writers.progress()
                timed.progress(2)
                gaps = [client.longest() for client in timed.each]
                role = "leader" if was_leader else "follower"
                took = ", ".join(f"{gap:.2f}" for gap in gaps)
                print(f"{role} to {version}: the longest writes took {took} s")
                assert max(gaps) < longest
            for proxy in proxies:
                for warning in warnings(version):
                    wait_until(lambda: warning in proxy.log_text(), f"warnings of {version}")  # noqa: B023
        timed.finish()
        writers.verify()
        for client in timed.each:
            assert holder.read(client.own)[1].version == client.rounds
        assert set(holder.children("/")[0]) >= {"mine", "held"}
        clients = [stack.enter_context(Client(port)) for port in ports]
        assert_same(*clients)
        assert KazooState.LOST not in states
        for proxy in proxies:
            for fault in ("loading the tree anew", "is over: its lease", "left out", " digest"):
                assert fault not in proxy.log_text()


def _proxy(start: Start, members: list[Member]) -> ZketcdServer:
    return start(",".join(member.endpoint for member in members), proxy_lease=10)
