"""A move with Curator's clients, whose EnsembleTracker connects to the addresses that a server names."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lab.servers import EtcdServer, ZooKeeperServer, free_port, wait_until
from lab.servers.link import Link
from schema.paths import CONFIG
from tests.clients.jvm import Jvm, java_virtual_machine
from tests.pipeline.ensembles import view, zketcd
from zketcd.__main__ import main

_SECONDS = 30


@pytest.fixture
def member() -> Iterator[ZooKeeperServer]:
    """The only member of an ensemble, which writes its address into the tree as all members do."""
    port = free_port()
    server = ZooKeeperServer(
        port=port,
        settings={
            "server.1": f"127.0.0.1:{free_port()}:{free_port()};127.0.0.1:{port}",
            "standaloneEnabled": "false",
            "initLimit": "30",
            "syncLimit": "15",
        },
    )
    server.data_dir.mkdir(exist_ok=True)
    (server.data_dir / "myid").write_text("1")
    with server:
        yield server


def curator(jvm: Jvm, address: str) -> Any:
    """A client as applications make it: the tracker is on by default."""
    policy = jvm.find("org.apache.curator.retry.RetryNTimes")(200, 100)
    factory = jvm.find("org.apache.curator.framework.CuratorFrameworkFactory")
    client = factory.newClient(address, 10_000, _SECONDS * 1000, policy)
    client.start()
    assert client.blockUntilConnected(_SECONDS, jvm.find("java.util.concurrent.TimeUnit").SECONDS)
    return client


def servers_of(client: Any) -> str:
    """The addresses to which a client connects from now on."""
    return str(client.getZookeeperClient().getCurrentConnectionString())


@pytest.mark.timeout(300)
def test_curators_clients_through_a_move(
    member: ZooKeeperServer, etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They leave an address that is in front of both sides; on zketcd they keep it."""
    there = f"etcd://{etcd_server.address}{etcd_prefix}"
    to_etcd = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    with java_virtual_machine() as jvm, ExitStack() as stack:
        balancer = stack.enter_context(Link())
        balancer.lead_to(member.port)
        old = curator(jvm, balancer.address)
        stack.callback(old.close)
        old.create().forPath("/made-before")
        wait_until(lambda: servers_of(old) == member.address, "the tracker knows the member", _SECONDS)
        assert main(["follow", str(member.data_dir), *to_etcd, "--finish"]) == 0
        assert main(["verify", str(member.data_dir), there, "--without-ephemerals"]) == 0
        assert f"{CONFIG} differs and is left out" in capsys.readouterr().err
        new = zketcd(etcd_server.endpoint, etcd_prefix)
        stack.enter_context(new)
        balancer.lead_to(new.port)
        old.create().forPath("/made-on-the-old-side")
        assert "/made-on-the-old-side" not in view(new.port)
        client = curator(jvm, balancer.address)  # the same application, started again
        stack.callback(client.close)
        assert bytes(client.getConfig().forEnsemble()) == b""  # what the tracker sees
        # A client that has lost its server connects to the addresses that its tracker has found.
        new.kill()
        new.start()
        wait_until(lambda: client.checkExists().forPath("/made-before") is not None, "it is back", _SECONDS)
        client.create().forPath("/made-after")
        assert servers_of(client) == balancer.address
        assert "/made-after" in view(new.port)
        assert "/made-after" not in view(member.port)
        # A zketcd at the member's address has the others as well.
        member.kill()
        stack.enter_context(zketcd(etcd_server.endpoint, etcd_prefix, member.port))
        wait_until(lambda: old.checkExists().forPath("/made-after") is not None, "it came along", _SECONDS)
