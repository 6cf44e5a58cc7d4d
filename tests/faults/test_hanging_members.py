"""A member of etcd is stopped: it keeps its connections and answers nothing. Clients soon write again.

How long in many faults of all kinds: `python -m proof.torture.gaps`, docs/reliability.md.
"""

import time
from contextlib import ExitStack

import pytest

from lab.servers import wait_until
from lab.servers.clusters import Cluster, Member, running_cluster
from tests.faults.conftest import Start
from tests.faults.workers import BUSY
from tests.faults.writers import Writers

#: Seconds that clients may wait longer than etcd. They would wait for five if a watch that
#: hangs were replaced by `--max-staleness` only.
_LONGER = 3.0


@pytest.mark.parametrize("proxies", [1, 3])
def test_writes_go_on_soon_while_a_member_is_stopped(start: Start, proxies: int) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        members = cluster.members
        ports = []
        for number in range(proxies):
            order = [*members[number:], *members[:number]]
            ports.append(start(",".join(member.endpoint for member in order), proxy_lease=10).port)
        writers = stack.enter_context(Writers(*ports, count=proxies))
        for role in ("follower", "leader"):
            calm = writers.calm()
            member = cluster.leader() if role == "leader" else _watched_follower(cluster)
            began = time.monotonic()
            member.pause()
            try:
                elected = _elected(cluster, member) if role == "leader" else began
                writers.progress()
                waited = time.monotonic() - elected
            finally:
                member.resume()
            longest = _LONGER + BUSY * calm
            assert waited < longest, f"the {role} is stopped: no write for {waited:.1f} s longer than etcd"
        writers.verify()  # none lost, none doubled, and no connection closed


def _watched_follower(cluster: Cluster) -> Member:
    """A follower at which a proxy has its watch, if there is one."""
    leader = cluster.leader()
    followers = [member for member in cluster.members if member is not leader]
    return max(followers, key=lambda member: member.metric("etcd_debugging_mvcc_watcher_total"))


def _elected(cluster: Cluster, stopped: Member) -> float:
    """The time at which another member leads."""
    others = [member for member in cluster.members if member is not stopped]
    wait_until(lambda: any(member.is_leader() for member in others), "another leader")
    return time.monotonic()
