"""An etcd of three members that loses its leader under load: no connection is closed, and writes soon go on.

What else may happen to members: proof/torture.

ZKETCD_TEST_PROXIES and ZKETCD_TEST_KILLS make the kills of the leader longer: 16 and 30 for a night.
"""

import os
import time
from contextlib import ExitStack

from lab.servers import wait_until
from lab.servers.clusters import Cluster, Member, running_cluster
from tests.faults.conftest import Start
from tests.faults.roaming import Roamers
from tests.faults.workers import BUSY
from tests.faults.writers import Writers

_PROXIES = int(os.environ.get("ZKETCD_TEST_PROXIES", "4"))
_KILLS = int(os.environ.get("ZKETCD_TEST_KILLS", "3"))
#: Seconds that writes may need after an election: a Txn is sent again after 1 s.
_AFTER_ELECTION = 3.5


def test_no_reload_no_session_lost_and_writes_go_on_after_the_election(start: Start) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        members = cluster.members
        proxies = []
        for number in range(_PROXIES):
            order = [*members[number % 3 :], *members[: number % 3]]
            proxies.append(start(",".join(member.endpoint for member in order), proxy_lease=10))
        writers = stack.enter_context(Writers(*(proxy.port for proxy in proxies), count=_PROXIES))
        roamers = stack.enter_context(Roamers(lambda: [proxy.port for proxy in proxies], count=_PROXIES))
        waits = []
        for _ in range(_KILLS):
            slow = BUSY * (writers.calm() + roamers.calm())
            leader = cluster.leader()
            leader.kill()
            elected = _wait_for_another(cluster, leader)
            roamers.progress(1)
            waits.append(max(roamer.last_answer for roamer in roamers.each) - elected - slow)
            roamers.progress(1)
            waits.append(time.monotonic() - elected - slow)
            leader.start()
        writers.verify()  # each client's writes in order, none lost, none doubled, and no connection closed
        roamers.verify()
        assert roamers.moves == 0, "no connection was closed"
        assert max(waits) < _AFTER_ELECTION, waits
        for proxy in proxies:
            assert "loading the tree anew" not in proxy.log_text()
            assert "carrying sessions over" not in proxy.log_text(), "no lease has run out"


def _wait_for_another(cluster: Cluster, killed: Member) -> float:
    """The time at which another member leads."""
    found: list[float] = []

    def look() -> bool:
        if any(member.is_leader() for member in cluster.members if member is not killed):
            found.append(time.monotonic())
        return bool(found)

    wait_until(look, "another leader")
    return found[0]
