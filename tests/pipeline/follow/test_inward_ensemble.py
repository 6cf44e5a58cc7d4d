"""Following one member of a real ensemble of three, while its leader, that member and etcd are killed."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.servers import EtcdServer, ZooKeeperServer, wait_until
from lab.servers.clusters import running_ensemble
from lab.servers.four_letter import four_letter_word
from schema.keys import Keyspace
from tests.pipeline.ensembles import zketcd
from tests.pipeline.follow.running import Comer, PipelineCommand, wait_for_zxid
from zketcd.__main__ import main

_PREFIX = "/t"
_WAITS = "waiting for `zketcd follow"  # what a zketcd says that stands by


@pytest.fixture
def members() -> Iterator[list[ZooKeeperServer]]:
    """Three ZooKeepers that serve together."""
    properties = {
        "zookeeper.forceSync": "no",
        "org.apache.logging.log4j.level": "ERROR",
        # A restarted member gets what it has missed as transactions, not as a snapshot.
        "zookeeper.commitLogCount": "100000",
    }
    with running_ensemble(system_properties=properties) as made:
        yield made


def leads(member: ZooKeeperServer) -> bool:
    try:
        return "Mode: leader" in four_letter_word(member.port, "srvr", timeout=5.0)
    except OSError:
        return False


@pytest.mark.timeout(400)
def test_the_leader_the_followed_member_and_etcd_are_killed(
    members: list[ZooKeeperServer], own_etcd_server: EtcdServer
) -> None:
    """The tree is level afterwards; a zketcd that waits for the cut-over may be killed as well."""
    keys = Keyspace(_PREFIX)
    to_etcd = ["--etcd", own_etcd_server.endpoint, "--prefix", _PREFIX]
    leader = next(member for member in members if leads(member))
    followed, other = (member for member in members if member is not leader)
    follow = ["follow", str(followed.data_dir), *to_etcd]
    new = zketcd(own_etcd_server.endpoint, _PREFIX)
    with (
        ExitStack() as stack,
        PipelineCommand(*follow, "--log-timeout", "60") as following,
        Comer(*(member.port for member in members)) as writing,
    ):
        stack.callback(new.close)
        wait_for_zxid(own_etcd_server, keys, writing.go_on())
        new.launch()  # not before the first load is complete: it would end
        for killed in (leader, followed, own_etcd_server):
            killed.kill()
            writing.go_on()  # a leader that was killed has a successor
            if killed is leader:
                wait_for_zxid(own_etcd_server, keys, writing.go_on())
            killed.start()
            wait_for_zxid(own_etcd_server, keys, writing.go_on())
            wait_until(lambda: _WAITS in new.log_text(), "zketcd waits", 60)
            new.kill()
            new.launch()
            assert main([*follow, "--check"]) == 0  # while clients write
        writing.stop()
        finish = ["--finish", "--zxid", hex(writing.last_zxid)]
        assert main([*follow, *finish]) == 0
        assert following.wait(60) == 0
        for member in (followed, leader, other):
            member.kill()
        new.wait_until_serving()
        there = f"etcd://{own_etcd_server.address}{_PREFIX}"
        assert main(["verify", str(followed.data_dir), there, "--without-ephemerals"]) == 0
