"""What an operator does, on real processes: each fault really happens, and leaves all running."""

import json
import random
from collections.abc import Iterator

import pytest

from codec import client as zk
from lab.client.blocking import NODE_EXISTS, OK, Client, Disconnected
from lab.servers import wait_until
from lab.servers.operator import etcdctl
from proof.torture.acts import Fault
from proof.torture.cluster import Cluster
from proof.torture.maintenance import KINDS

pytestmark = pytest.mark.real

FAULTS = ("add-member", "restore", "failed-upgrade", "password")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as made:
        yield made


def _begin(cluster: Cluster, kind: str) -> Fault:
    return KINDS[kind].begin(cluster, random.Random(1))


def _members(cluster: Cluster) -> set[int]:
    listed = json.loads(etcdctl(cluster.members[0], "member", "list", "--write-out=json"))
    return {each["ID"] for each in listed["members"] if each.get("name")}


def _all_serve(cluster: Cluster) -> bool:
    return all(member.serves() for member in cluster.members)


def test_a_member_comes_and_goes(cluster: Cluster) -> None:
    before = _members(cluster)
    begun = _begin(cluster, "add-member")
    wait_until(lambda: len(_members(cluster)) == 4, "etcd has four members")
    begun.end()
    assert _members(cluster) == before
    assert _all_serve(cluster)


def creates(port: int, path: str) -> bool:
    """Whether a client gets a session and writes; an earlier one may have, without its answer."""
    try:
        with Client(port) as client:
            return client.refusal(zk.create(path)) in (OK, NODE_EXISTS)
    except (Disconnected, OSError):
        return False


def test_etcd_is_restored_with_all_that_it_had(cluster: Cluster) -> None:
    etcdctl(cluster.members[0], "put", "what", "stays")
    before = _members(cluster)
    _begin(cluster, "restore").end()
    assert _members(cluster).isdisjoint(before)
    for member in cluster.members:
        assert etcdctl(member, "get", "what", "--print-value-only") == "stays\n"
    wait_until(lambda: creates(cluster.proxies[0].port, "/comes"), "the proxy has loaded its tree")


def test_upgrades_fail(cluster: Cluster) -> None:
    (proxy,) = cluster.proxies
    log = proxy.messages_from_now()
    begun = _begin(cluster, "failed-upgrade")
    # The new process may also have been killed too late for the old one to continue.
    wait_until(lambda: "no upgrade: " in log() or not proxy.alive, "an upgrade fails")
    begun.end()
    assert proxy.ended_by_itself() is None
    if not proxy.alive:
        proxy.start()


def test_the_password_changes_and_authentication_ends(cluster: Cluster) -> None:
    (proxy,) = cluster.proxies
    before = cluster.password_file.read_text()
    said = proxy.messages_from_now()
    begun = _begin(cluster, "password")
    with Client(proxy.port) as client:
        client.create("/password")
        with pytest.raises(RuntimeError, match="user name is empty"):
            etcdctl(cluster.members[0], "get", "what")
        wait_until(lambda: said().count("etcd accepts the password of user zketcd") > 1, "two changes")
        begun.end()
        client.write("/password", b"", 0)
    assert cluster.password_file.read_text() != before
    etcdctl(cluster.members[0], "get", "what")
