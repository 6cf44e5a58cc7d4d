"""etcd's version changes under load, member by member, as its upgrade guide has it: 3.4, then each 3.5."""

from contextlib import ExitStack

from kazoo.client import KazooState

from lab.client.blocking import EPHEMERAL, Client
from lab.servers import ZketcdServer, wait_until
from lab.servers.clusters import Member, running_cluster
from lab.servers.etcd import VERSIONS
from proxy.etcd.versions import warnings
from tests.faults.agreement import assert_same
from tests.faults.conftest import Start
from tests.faults.writers import Writers
from tests.kazoo import kazoo

_PROXIES = 3


def test_a_rolling_change_of_version_loses_no_write_and_no_session(start: Start) -> None:
    oldest, *newer = VERSIONS
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(version=oldest))
        members = cluster.members
        assert {member.version() for member in members} == {oldest}
        proxies = [_proxy(start, [*members[n:], *members[:n]]) for n in range(_PROXIES)]
        ports = [proxy.port for proxy in proxies]
        states: list[str] = []
        client = stack.enter_context(kazoo(*proxies, timeout=30))
        client.add_listener(states.append)
        client.create("/mine", ephemeral=True)
        holder = stack.enter_context(Client(ports[0]))
        holder.create("/held", b"", EPHEMERAL)
        writers = stack.enter_context(Writers(*ports, count=_PROXIES))
        for version in newer:
            # The leader comes last, as an operator does it: else each stop of a leader elects another one.
            for member in sorted(members, key=Member.is_leader):
                member.stop()
                member.next_version = version
                member.start()
                assert member.version() == version
                writers.progress()
            for proxy in proxies:
                for warning in warnings(version):
                    wait_until(lambda: warning in proxy.log_text(), f"warnings of {version}")  # noqa: B023
        writers.verify()
        assert set(holder.children("/")[0]) >= {"mine", "held"}
        clients = [stack.enter_context(Client(port)) for port in ports]
        assert_same(*clients)
        assert KazooState.LOST not in states
        for proxy in proxies:
            for fault in ("loading the tree anew", "is over: its lease", "left out", " digest"):
                assert fault not in proxy.log_text()


def _proxy(start: Start, members: list[Member]) -> ZketcdServer:
    return start(",".join(member.endpoint for member in members), proxy_lease=10)
