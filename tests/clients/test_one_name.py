"""Three proxies behind one DNS name: where the Java client goes, and what moves it.

A client of ZooKeeper 3.10 takes the first address of a name, one of 3.9 any of them (StaticHostProvider's
resolve). The client here is 3.9 with a resolver of the test: given only the first address, it does as 3.10's.
"""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from typing_extensions import override

from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until
from tests.clients.conftest import ON_ZOOKEEPER
from tests.clients.jvm import Callback, Jvm, java_virtual_machine
from tests.test_pages import SUPER

pytestmark = pytest.mark.skipif(ON_ZOOKEEPER, reason="about several proxies")

_NAME = "zketcd.test"
_SESSION_MS = 30_000
_CLIENTS = 6


class _Proxy(ZketcdServer):
    """One at an address of its own, and the same port."""

    def __init__(self, host: str, etcd: str, port: int, prefix: str) -> None:
        self.host = host
        self.admin = f"127.0.0.1:{free_port()}"
        super().__init__(etcd, port=port, prefix=prefix, admin_listen=self.admin, super_digest=SUPER)

    @property
    @override
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def shed(self) -> None:
        """Close the connections of all clients."""
        asked = urllib.request.Request(
            f"http://{self.admin}/commands/shed_connections",
            json.dumps({"percentage": 100}).encode(),
            {"Authorization": "digest super:PASSWORD"},
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["error"] is None


class _Dns(Callback):
    """Java's resolver: the addresses of each name, in their order."""

    class Java:
        implements = ("org.apache.zookeeper.client.StaticHostProvider$Resolver",)

    def __init__(self, jvm: Jvm, answers: Mapping[str, Sequence[str]], most: int) -> None:
        self._jvm = jvm
        self._answers = answers
        self._most = most

    def getAllByName(self, name: str) -> Any:
        found = self._jvm.find("java.net.InetAddress")
        addresses = self._answers[name][: self._most]
        return self._jvm.array("java.net.InetAddress", *(found.getByName(each) for each in addresses))


class _Silent(Callback):
    """A watcher."""

    class Java:
        implements = ("org.apache.zookeeper.Watcher",)

    def process(self, event: Any) -> None:
        """Clients are asked instead."""


class _Client(NamedTuple):
    """A ZooKeeper of Java."""

    zookeeper: Any

    @property
    def id(self) -> int:
        """Its session."""
        return int(self.zookeeper.getSessionId())

    def _address(self, end: str) -> str:
        text = str(self.zookeeper.toString())
        found = re.search(rf"{end}:[^/ ]*/([\d.]+:\d+)", text)
        return found[1] if found and "State:CONNECTED " in text else ""

    @property
    def server(self) -> str:
        """Where it is connected; empty if it is not."""
        return self._address("remoteserver").partition(":")[0]

    @property
    def connection(self) -> str:
        """Another one for each connection; empty if there is none."""
        return self._address("local")


def _moved(clients: Sequence[_Client], act: Callable[[], object]) -> set[str]:
    """Where the clients are after something has closed all their connections. Each keeps its session."""
    before = [(client.id, client.connection) for client in clients]
    act()
    pairs = list(zip(clients, before, strict=True))
    wait_until(
        lambda: all(client.connection not in ("", connection) for client, (_, connection) in pairs),
        "all to connect again",
        120,
    )
    assert [client.id for client in clients] == [session for session, _ in before]
    return {client.server for client in clients}


class _World(NamedTuple):
    proxies: Sequence[_Proxy]
    answers: dict[str, list[str]]
    connect: Callable[..., list[_Client]]  # (names, *, most addresses of a name that the client sees)


@pytest.fixture
def world(etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[_World]:
    port = free_port()
    hosts = [f"127.0.0.{number}" for number in (1, 2, 3)]
    answers = {_NAME: hosts, **{f"{number}.{_NAME}": [host] for number, host in enumerate(hosts, 1)}}
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(_Proxy(host, etcd_server.endpoint, port, etcd_prefix)) for host in hosts
        ]
        jvm = stack.enter_context(java_virtual_machine())

        def connect(names: Sequence[str], *, most: int) -> list[_Client]:
            made = []
            for _ in range(_CLIENTS):
                addresses = jvm.find("java.util.ArrayList")()
                for name in names:
                    addresses.add(jvm.find("java.net.InetSocketAddress").createUnresolved(name, port))
                of_hosts = jvm.find("org.apache.zookeeper.client.StaticHostProvider")
                provider = of_hosts(addresses, _Dns(jvm, answers, most))
                servers = ",".join(f"{name}:{port}" for name in names)
                zookeeper = jvm.find("org.apache.zookeeper.ZooKeeper")(
                    servers, _SESSION_MS, _Silent(), False, provider
                )
                stack.callback(zookeeper.close, 1000)
                made.append(_Client(zookeeper))
            wait_until(lambda: all(client.server for client in made), "all to connect", 120)
            return made

        yield _World(proxies, answers, connect)


def test_who_takes_the_first_address_moves_only_where_dns_changes_its_order(world: _World) -> None:
    first, second, third = world.proxies
    clients = world.connect([_NAME], most=1)
    assert {client.server for client in clients} == {first.host}
    assert _moved(clients, first.shed) == {first.host}  # shed_connections spreads none of them
    world.answers[_NAME] = [second.host, third.host, first.host]
    assert {client.server for client in clients} == {first.host}
    assert _moved(clients, first.shed) == {second.host}
    # The name stands for one address: the proxies at the others are not found while this one is down.
    others = world.connect(list(world.answers)[1:], most=1)
    second.stop()
    wait_until(lambda: all(client.server not in ("", second.host) for client in others), "them to move", 120)
    wait_until(lambda: {client.server for client in clients} == {""}, "the others to notice it", 120)
    world.answers[_NAME] = [third.host, first.host, second.host]
    wait_until(lambda: {client.server for client in clients} == {third.host}, "them to connect", 120)


def test_a_list_of_names_and_shuffled_answers_let_clients_be_moved(world: _World) -> None:
    for names, most in ((list(world.answers)[1:], 1), ([_NAME], 3)):
        clients = world.connect(names, most=most)
        busiest, _ = Counter(client.server for client in clients).most_common(1)[0]
        proxy = next(proxy for proxy in world.proxies if proxy.host == busiest)
        there = [client for client in clients if client.server == busiest]
        if most == 1:
            assert busiest not in _moved(there, proxy.shed)
            continue
        # Each time at random: that all of them come back ten times has a chance of 3 ** -20 at most.
        assert any(_moved(there, proxy.shed) != {busiest} for _ in range(10))
