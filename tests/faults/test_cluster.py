"""An etcd of three members that loses its leader, a follower, or its quorum, under load.

ZKETCD_TEST_PROXIES and ZKETCD_TEST_KILLS make the kills of the leader longer: 16 and 30 for a night.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.client.blocking import Client
from lab.servers import ZketcdServer, wait_until
from tests.faults.cluster import Cluster, Member, running_cluster
from tests.faults.conftest import Start
from tests.faults.roaming import Roamers
from tests.faults.writers import Writers

_PROXIES = int(os.environ.get("ZKETCD_TEST_PROXIES", "4"))
_KILLS = int(os.environ.get("ZKETCD_TEST_KILLS", "3"))
#: Seconds that writes may need after an election: a Txn is sent again after 1 s.
_AFTER_ELECTION = 3.5


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three members. Each test has a tree of its own in them."""
    with running_cluster() as cluster:
        yield cluster


Pair = tuple[ZketcdServer, ZketcdServer]
PairOn = Callable[[Member], Pair]


@pytest.fixture
def pair_on(start: Start, cluster: Cluster, etcd_prefix: str) -> PairOn:
    """Start two proxies that know all members: one begins with the given member, the other with another."""

    def started(first: Member) -> Pair:
        others = [member for member in cluster.members if member is not first]
        orders = [first, *others], [others[0], first, others[1]]
        one, other = (
            start(",".join(member.endpoint for member in order), prefix=etcd_prefix) for order in orders
        )
        return one, other

    return started


def test_no_reload_no_session_lost_and_writes_go_on_after_the_election(
    start: Start, cluster: Cluster, etcd_prefix: str
) -> None:
    members = cluster.members
    proxies = []
    for number in range(_PROXIES):
        order = [*members[number % 3 :], *members[: number % 3]]
        endpoints = ",".join(member.endpoint for member in order)
        proxies.append(start(endpoints, prefix=etcd_prefix, proxy_lease=10))
    with ExitStack() as stack:
        writers = stack.enter_context(Writers(*(proxy.port for proxy in proxies), count=_PROXIES))
        roamers = stack.enter_context(Roamers(lambda: [proxy.port for proxy in proxies], count=_PROXIES))
        waits = []
        for _ in range(_KILLS):
            writers.progress()
            roamers.progress()
            leader = cluster.leader()
            leader.kill()
            elected = _wait_for_another(cluster, leader)
            roamers.progress(1)
            waits.append(max(roamer.last_answer for roamer in roamers.each) - elected)
            roamers.progress(1)
            waits.append(time.monotonic() - elected)
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


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_member_that_sleeps_and_wakes_with_requests_in_its_hands(
    cluster: Cluster, pair_on: PairOn, leads: bool
) -> None:
    member = cluster.leader() if leads else cluster.follower()
    proxies = pair_on(member)
    with Writers(*(proxy.port for proxy in proxies)) as writers:
        writers.progress()
        member.pause()
        if leads:
            wait_until(lambda: "outcome unknown" in proxies[0].log_text(), "a Txn has no answer")
        writers.progress()  # over the others, if need be with another leader
        member.resume()
        writers.progress(6)
        writers.verify()


def test_a_quorum_lost_for_a_while(cluster: Cluster, pair_on: PairOn) -> None:
    """The member that is left keeps its streams open, but has no news: the proxies must notice."""
    left, *others = cluster.members
    proxies = pair_on(left)
    with Writers(*(proxy.port for proxy in proxies)) as writers, Client(proxies[0].port, 2_000) as short:
        short.create("/short")
        writers.progress()
        for member in others:
            member.kill()
        wait_until(lambda: "the watch broke" in proxies[0].log_text(), "the proxy misses the quorum")
        short.until_closed()  # its proxy cannot know what others do meanwhile
        for member in others:
            member.launch()
        for member in others:
            member.wait_until_serving()
        writers.progress()
        writers.verify()
        with Client(proxies[1].port) as client:
            client.sync()
            assert client.stat("/short") is not None
