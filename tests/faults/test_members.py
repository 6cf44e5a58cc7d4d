"""Members of etcd are stopped, and so keep their connections, or killed: no write and no connection is lost.

For how long clients wait then: tests/proof/simulation/test_hanging_member.py.
"""

from contextlib import ExitStack

import pytest

from lab.servers.clusters import Cluster, Member, running_cluster
from tests.faults.conftest import Start
from tests.faults.writers import Writers


@pytest.mark.parametrize("proxies", [1, 3])
def test_writes_go_on_while_a_member_is_away(start: Start, proxies: int) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        members = cluster.members
        ports = []
        for number in range(proxies):
            order = [*members[number:], *members[:number]]
            ports.append(start(",".join(member.endpoint for member in order), proxy_lease=10).port)
        writers = stack.enter_context(Writers(*ports, count=proxies))
        follower = _watched_follower(cluster)
        follower.pause()
        writers.progress()
        follower.resume()
        for stops in (True, False):
            leader = cluster.leader()
            end, begin = (leader.pause, leader.resume) if stops else (leader.kill, leader.start)
            end()
            writers.progress()
            begin()
        writers.verify()  # none lost, none doubled, and no connection closed


def _watched_follower(cluster: Cluster) -> Member:
    """A follower at which a proxy has its watch, if there is one."""
    leader = cluster.leader()
    followers = [member for member in cluster.members if member is not leader]
    return max(followers, key=lambda member: member.metric("etcd_debugging_mvcc_watcher_total"))
