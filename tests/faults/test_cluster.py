"""An etcd of three members that loses its leader, a follower, or its quorum, under load."""

from collections.abc import Iterator

import pytest

from lab.client.blocking import Client
from lab.servers import ZketcdServer, wait_until
from tests.faults.cluster import Cluster, Member, running_cluster
from tests.faults.conftest import Start
from tests.faults.writers import Writers


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three members of the test's own."""
    with running_cluster() as cluster:
        yield cluster


def pair_on(start: Start, cluster: Cluster, first: Member) -> tuple[ZketcdServer, ZketcdServer]:
    """Two proxies that know all members: one begins with `first`, the other with another."""
    others = [member for member in cluster.members if member is not first]
    orders = [first, *others], [others[0], first, others[1]]
    one, other = (start(",".join(member.endpoint for member in order)) for order in orders)
    return one, other


def test_leaders_killed_one_after_the_other(start: Start, cluster: Cluster) -> None:
    proxies = pair_on(start, cluster, cluster.leader())
    with Writers(*(proxy.port for proxy in proxies)) as writers:
        for _ in range(2):
            writers.progress()
            leader = cluster.leader()
            leader.kill()
            writers.progress()  # the others go on
            leader.start()
        writers.progress()
        writers.verify()


def test_a_leader_that_sleeps_and_wakes_with_requests_in_its_hands(start: Start, cluster: Cluster) -> None:
    leader = cluster.leader()
    proxies = pair_on(start, cluster, leader)
    with Writers(*(proxy.port for proxy in proxies)) as writers:
        writers.progress()
        leader.pause()
        wait_until(lambda: "outcome unknown" in proxies[0].log_text(), "a Txn has no answer")
        writers.progress()  # over the others, with another leader
        leader.resume()
        writers.progress(6)
        writers.verify()


def test_a_follower_that_sleeps(start: Start, cluster: Cluster) -> None:
    follower = cluster.follower()
    proxies = pair_on(start, cluster, follower)
    with Writers(*(proxy.port for proxy in proxies)) as writers:
        writers.progress()
        follower.pause()
        writers.progress()
        follower.resume()
        writers.progress(6)
        writers.verify()


def test_a_quorum_lost_for_a_while(start: Start, cluster: Cluster) -> None:
    """The member that is left keeps its streams open, but has no news: the proxies must notice."""
    left, *others = cluster.members
    proxies = pair_on(start, cluster, left)
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
