"""TLS as clients see it: kazoo and the Java client, on the port of all others and on one of its own."""

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent
from kazoo.security import ACL, Id

from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until, zookeeper_classpath
from lab.servers.tls import Authority, Pair
from lab.servers.zookeeper import SMALL_JVM, java_program
from tests.kazoo import kazoo

_TIMEOUT_S = 60.0


class Secure(ZketcdServer):
    """One proxy with TLS on both of its ports, and all that its clients need."""

    def __init__(self, etcd: EtcdServer, prefix: str, folder: Path) -> None:
        self.secure_port = free_port()
        self.authority = Authority(folder)
        self.amy = self.authority.issue("amy", common_name="amy")
        self.files = self.authority.issue("server", "127.0.0.1", "localhost")
        super().__init__(
            etcd.endpoint,
            prefix=prefix,
            max_client_connections=0,
            tls_cert=self.files.cert,
            tls_key=self.files.key,
            tls_ca=self.authority.ca,
            secure_listen=f"127.0.0.1:{self.secure_port}",
        )

    def kazoo(self, port: int | None = None) -> contextlib.AbstractContextManager[KazooClient]:
        """A kazoo over TLS with a certificate."""
        files = {"ca": str(self.authority.ca), "certfile": str(self.amy.cert), "keyfile": str(self.amy.key)}
        return kazoo(f"127.0.0.1:{port or self.port}", use_ssl=True, **files)

    def shown(self) -> str:
        """The serial number of the certificate that a new client is shown."""
        context = self.authority.client_context(self.amy)
        with (
            socket.create_connection(("127.0.0.1", self.port), _TIMEOUT_S) as sock,
            context.wrap_socket(sock, server_hostname="127.0.0.1") as secure,
        ):
            return str((secure.getpeercert() or {})["serialNumber"])


@pytest.fixture(scope="module")
def server(etcd_server: EtcdServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A proxy that all of this file shares."""
    with Secure(etcd_server, "/clients-tls", tmp_path_factory.mktemp("tls")) as server:
        yield server


@pytest.mark.parametrize("secure_port", [False, True])
def test_kazoo(server: Secure, secure_port: bool) -> None:
    port = server.secure_port if secure_port else server.port
    path = f"/kazoo-{secure_port}"
    events: list[WatchedEvent] = []
    with server.kazoo(port) as client:
        client.create(path, b"one")
        client.get(path, watch=events.append)
        client.set(path, b"two")
        wait_until(lambda: events, "the watch fires")
        assert client.get(path)[0] == b"two"
        subject = "CN=amy,OU="
        client.set_acls(path, [ACL(31, Id("auth", ""))])
        assert client.get_acls(path)[0][0].id.id.startswith(subject)


def _greeted(server: Secure, context: ssl.SSLContext) -> bytes:
    """What ruok is answered over TLS; nothing, or SSLError or ConnectionError, where none is admitted."""
    with (
        socket.create_connection(("127.0.0.1", server.port), _TIMEOUT_S) as sock,
        context.wrap_socket(sock, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"ruok")
        return secure.recv(100)


def test_who_has_no_certificate_or_a_foreign_one_is_not_let_in(server: Secure, tmp_path: Path) -> None:
    eve = Authority(tmp_path, "stranger").issue("eve", common_name="amy")
    assert _greeted(server, server.authority.client_context(server.amy)) == b"imok"
    for pair in (None, eve):
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert _greeted(server, server.authority.client_context(pair)) == b""
    wait_until(lambda: "cannot let 127.0.0.1 in" in server.log_text(), "the server says why")


def test_renewed_certificates_are_shown_to_new_clients_and_bad_ones_are_not(server: Secure) -> None:
    with server.kazoo() as client:
        before = server.shown()
        server.files.cert.write_text("no certificate")
        wait_until(lambda: "holds no certificate in PEM" in server.log_text(), "the server says so")
        assert server.shown() == before
        server.files = server.authority.issue("server", "127.0.0.1", "localhost")
        wait_until(lambda: server.shown() != before, "the new certificate is shown")
        assert client.exists("/")
        assert client.client_state == "CONNECTED"


def _java(port: int, pair: Pair, ca: Path, *command: str) -> str:
    done = subprocess.run(
        [
            java_program(),
            *SMALL_JVM,
            "-Dorg.apache.logging.log4j.level=WARN",
            "-Dzookeeper.client.secure=true",
            "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            f"-Dzookeeper.ssl.keyStore.location={pair.both}",
            "-Dzookeeper.ssl.keyStore.type=PEM",
            f"-Dzookeeper.ssl.trustStore.location={ca}",
            "-Dzookeeper.ssl.trustStore.type=PEM",
            *("-cp", zookeeper_classpath(), "org.apache.zookeeper.ZooKeeperMain"),
            *("-server", f"127.0.0.1:{port}", *command),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_java_client(server: Secure) -> None:
    """On either port it is known by its certificate, without which it could not read the ACL."""
    made = _java(server.port, server.amy, server.authority.ca, "create", "/java", "", "auth::crwda")
    assert "Created /java" in made
    told = _java(server.secure_port, server.amy, server.authority.ca, "getAcl", "/java")
    assert "'x509,'CN=amy%2COU=" in told
