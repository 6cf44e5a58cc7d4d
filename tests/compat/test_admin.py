"""The admin server's commands held against ZooKeeper's own, run in a JVM: its Jetty is not in pyspark's jars.

Compared are names, statuses and the shape of each answer, key by key, and values that no run changes.
"""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab.oracle import wire
from lab.oracle.client import Client
from lab.oracle.requests import EPHEMERAL, Create, Exists, GetData
from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until
from lab.servers.operator import ask
from tests.clients.jvm import Jvm, java_virtual_machine
from tests.compat.test_four_letter import OWN_METRICS

pytestmark = pytest.mark.real

# Whose keys depend on the machine.
FREE_KEYS = {"environment", "monitor", "system_properties"}


class Answer(NamedTuple):
    """One command's answer."""

    status: int
    body: Any


class Real:
    """ZooKeeper's commands and a server for them, in a JVM."""

    def __init__(self, jvm: Jvm, folder: Path, host: str = "127.0.0.1") -> None:
        self._jvm = jvm
        package = "org.apache.zookeeper.server"
        where = jvm.find("java.io.File")(str(folder))
        self._server = jvm.find(f"{package}.ZooKeeperServer")(where, where, 2000)
        self.port = free_port()
        address = jvm.find("java.net.InetSocketAddress")(host, self.port)
        self._factory = jvm.find(f"{package}.ServerCnxnFactory").createFactory(address, 60)
        self._factory.startup(self._server)
        self._commands = jvm.find(f"{package}.admin.Commands")

    def names(self) -> dict[str, list[str]]:
        """All names of each command by its primary one."""
        return {
            name: sorted(self._commands.getCommand(name).getNames())
            for name in self._commands.getPrimaryNames()
        }

    def ask(
        self, name: str, arguments: dict[str, str], authorization: str | None, *, quorum: bool = True
    ) -> Answer:
        """Run a command as JettyAdminServer does for GET. It has no server as long as there is no quorum."""
        server = self._server if quorum else None
        response = self._commands.runGetCommand(name, server, arguments, authorization, None)
        writer = self._jvm.find("java.io.StringWriter")()
        printer = self._jvm.find("java.io.PrintWriter")(writer)
        self._jvm.find("org.apache.zookeeper.server.admin.JsonOutputter")("").output(response, printer)
        printer.flush()
        return Answer(response.getStatusCode(), json.loads(writer.toString()))

    def close(self) -> None:
        """Stop the server."""
        self._factory.shutdown()


class Ours:
    """zketcd's admin server."""

    def __init__(self, server: ZketcdServer, admin_port: int) -> None:
        self.port = server.port
        self._url = f"http://127.0.0.1:{admin_port}/commands/"

    def ask(self, name: str, arguments: dict[str, str], authorization: str | None) -> Answer:
        """GET a command."""
        query = "&".join(f"{key}={value}" for key, value in arguments.items())
        headers = {} if authorization is None else {"Authorization": authorization}
        request = urllib.request.Request(f"{self._url}{name}?{query}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return Answer(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.load(error))


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    with java_virtual_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def real(jvm: Jvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    server = Real(jvm, tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def ours(etcd_server: EtcdServer) -> Iterator[Ours]:
    admin = free_port()
    with ZketcdServer(
        etcd_server.endpoint, prefix="/admin-commands", admin_listen=f"127.0.0.1:{admin}"
    ) as server:
        yield Ours(server, admin)


@pytest.fixture(scope="module")
def clients(real: Real, ours: Ours) -> Iterator[None]:
    """A client with an ephemeral node and watches on each."""
    with Client(real.port) as first, Client(ours.port) as second:
        for client in (first, second):
            for request in (Create("/e", flags=EPHEMERAL), GetData("/e", True), Exists("/missing", True)):
                client.ask_for_reply(request)
        yield


def shape(value: Any, name: str = "") -> Any:
    """What stays of a value without what differs between two runs: numbers, ids as keys, addresses."""
    if isinstance(value, dict):
        if name.startswith(("session_id_to", "expiry_time_to")):
            # ZooKeeper keeps a time without sessions until it comes: they were heard again, and end later.
            values = [inner for inner in value.values() if inner or name.startswith("session_id_to")]
            return {"an id": [shape(inner) for inner in values]}
        return {key: shape(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((shape(inner) for inner in value), key=str)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return type(value).__name__
    return (
        "a text"
        if name in ("version", "remote_socket_address", "data_dir", "data_log_dir", "zxid")
        else value
    )


def test_all_names(real: Real, ours: Ours) -> None:
    for primary, names in real.names().items():
        for name in names:
            found = ours.ask(name, {}, None).body["command"]
            # an error has the name that was asked for, as in ZooKeeper
            assert found == (name if primary in ("restore", "snapshot") else primary)
    with urllib.request.urlopen(f"{ours._url}", timeout=10) as answer:
        listed = [line.split("/")[2].partition('"')[0] for line in answer.read().decode().splitlines()[::2]]
    # Our own three, and one of a ZooKeeper after 3.9.
    later = {"kill_session", "log_level", "top", "shed_connections"}
    assert listed == sorted(real.names().keys() | later)


def test_each_answer(real: Real, ours: Ours, clients: None) -> None:
    for name in sorted(real.names()):
        theirs, found = real.ask(name, {}, None), ours.ask(name, {}, None)
        assert found.status == theirs.status, name
        if name not in FREE_KEYS:
            assert shape(found.body) == shape(theirs.body), name
        if name != "monitor":  # its lines come in no order
            assert [key for key in found.body if key in theirs.body] == [
                key for key in theirs.body if key in found.body
            ]
    monitor = real.ask("mntr", {}, None).body
    for key, value in ours.ask("mntr", {}, None).body.items():
        if not f"zk_{key}".startswith(OWN_METRICS):
            assert type(value) is type(monitor[key]), key


def test_each_answer_without_a_quorum(real: Real) -> None:
    """ZooKeeper's `monitor` fails then, and its answer is a 500 with a page of HTML."""
    admin = free_port()
    address = f"127.0.0.1:{admin}"
    with closing(ZketcdServer(f"http://127.0.0.1:{free_port()}", admin_listen=address)) as server:
        server.launch()
        wait_until(lambda: ask(admin, "/live")[0] == 200, "the admin server")
        ours = Ours(server, admin)
        for primary, names in real.names().items():
            for name in names if primary not in {"monitor", *FREE_KEYS} else ():
                assert ours.ask(name, {}, None) == real.ask(name, {}, None, quorum=False)
        assert "not currently serving" in ours.ask("monitor", {}, None).body["error"]
        assert ours.ask("environment", {}, None).body["error"] is None


def test_an_ipv6_client(jvm: Jvm, etcd_server: EtcdServer, tmp_path: Path) -> None:
    admin = free_port()
    server = ZketcdServer(
        etcd_server.endpoint,
        prefix="/admin-ipv6",
        admin_listen=f"127.0.0.1:{admin}",
        arguments=("--listen", f"[::1]:{(port := free_port())}"),
    )
    theirs = Real(jvm, tmp_path, "::1")
    with closing(theirs), server, ExitStack() as stack:
        for asked, number in ((theirs, theirs.port), (Ours(server, admin), port)):
            client = socket.create_connection(("::1", number))
            stack.enter_context(client)
            client.sendall(wire.frame(wire.pack_connect()))
            client.recv(1)
            (connection,) = asked.ask("connections", {}, None).body["connections"]
            address = connection["remote_socket_address"]
            assert address == f"[0:0:0:0:0:0:0:1]:{client.getsockname()[1]}"


def test_each_answer_after_a_request(real: Real, ours: Ours, clients: None) -> None:
    for name, arguments in (
        ("nothing", {}),
        ("stmk", {}),
        ("stmk", {"traceMask": "x"}),
        ("stmk", {"traceMask": str(1 << 63)}),
        ("stmk", {"traceMask": "-7"}),
        ("gtmk", {}),
    ):
        assert ours.ask(name, arguments, None) == real.ask(name, arguments, None)


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "digest",
        "digest ",
        "digest user",
        "digest a:b",
        "digest a:b c",
        "ip",
        "world anyone",
        "sasl x",
        "x",
    ],
)
@pytest.mark.parametrize("name", ["snapshot", "rest"])
def test_who_may_run_a_guarded_command(real: Real, ours: Ours, name: str, authorization: str) -> None:
    if authorization == "ip":
        # ZooKeeper takes it from the request, which there is none of here; any client has an address.
        assert ours.ask(name, {}, authorization).status in (405, 503)
        return
    found = ours.ask(name, {}, authorization)
    if authorization in ("digest a:b", "digest user"):
        # ZooKeeper would take a snapshot now, or stumble over a restore by GET.
        assert found.status in (405, 503)
        assert "etcdctl" in found.body["error"] or "POST" in found.body["error"]
        return
    assert found == real.ask(name, {}, authorization)
