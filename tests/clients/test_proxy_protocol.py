"""The PROXY protocol with a real HAProxy between clients and zketcd: both versions, with TLS and without."""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.four_letter import four_letter_word
from lab.servers.haproxy import HaproxyServer
from lab.servers.tls import Authority
from tests.compat.test_connection_limits import lets_in
from tests.kazoo import kazoo

pytestmark = pytest.mark.real

# From where HAProxy connects to zketcd, and the clients of these tests to HAProxy.
_BALANCER = "127.0.0.9"
_LIMIT = 3


class Balanced(ZketcdServer):
    """One proxy behind one HAProxy; it lets clients connect directly too."""

    def __init__(self, etcd: EtcdServer, folder: Path) -> None:
        self.authority = Authority(folder)
        files = self.authority.issue("server", "127.0.0.1")
        self.audit_log = folder / "audit.log"
        super().__init__(
            etcd.endpoint,
            prefix="/proxy-protocol",
            tls_cert=files.cert,
            tls_key=files.key,
            tls_client_auth="none",
            max_client_connections=_LIMIT,
            proxy_protocol="accept",
            proxy_protocol_from=_BALANCER,
            audit_log=self.audit_log,
        )
        self.haproxy = HaproxyServer(self.address, _BALANCER)

    def ports(self) -> dict[str, int]:
        """HAProxy's, by the version of its headers."""
        return {"version 1": self.haproxy.port, "version 2": self.haproxy.binary_port}


@pytest.fixture(scope="module")
def balanced(etcd_server: EtcdServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    """HAProxy and zketcd."""
    with Balanced(etcd_server, tmp_path_factory.mktemp("tls")) as server, server.haproxy:
        yield server


def _connections(server: Balanced) -> list[tuple[str, int]]:
    """Who is connected, as the word `cons` has it."""
    text = four_letter_word(server.port, "cons")
    return [(address, int(port)) for address, port in re.findall(r"^ /([\d.]+):(\d+)\[", text, re.MULTILINE)]


@pytest.mark.parametrize("version", ["version 1", "version 2"])
@pytest.mark.parametrize("tls", [False, True])
def test_the_clients_address_is_what_everybody_sees(balanced: Balanced, version: str, tls: bool) -> None:
    options = {"use_ssl": True, "ca": str(balanced.authority.ca)} if tls else {}
    with kazoo(f"127.0.0.1:{balanced.ports()[version]}", timeout=30, **options) as client:
        own = client._connection._socket.getsockname()[:2]
        assert own in _connections(balanced)
        path = f"/mine-{version.replace(' ', '-')}-{tls}"
        client.create(path, b"", acl=[make_acl("ip", "127.0.0.1", all=True)])
        assert client.get(path)[0] == b""
        client.create(path + "-balancer", b"", acl=[make_acl("ip", _BALANCER, all=True)])
        with pytest.raises(NoAuthError):
            client.get(path + "-balancer")
        session = re.escape(f"0x{client.client_id[0] & 0xFFFFFFFFFFFFFFFF:x}")
    assert re.search(rf"session {session}: opened by {own[0]}:{own[1]}, ", balanced.log_text())
    wait_until(
        lambda: re.search(
            rf"session={session}\tuser=127.0.0.1\tip=127.0.0.1\toperation=create\tznode={path}\t",
            balanced.audit_log.read_text(),
        ),
        "the audit log has the create",
    )


@pytest.mark.parametrize("version", ["version 1", "version 2"])
def test_the_limit_is_one_for_each_client(balanced: Balanced, version: str) -> None:
    port = balanced.ports()[version]
    opened: list[socket.socket] = []
    try:
        for address in ("127.0.0.2", "127.0.0.3"):
            for _ in range(_LIMIT):  # those of the test before may still be counted
                wait_until(lambda: lets_in(port, address, opened), "there is room")  # noqa: B023
            assert not lets_in(port, address, opened)
    finally:
        for sock in opened:
            sock.close()


def test_health_checks_leave_no_line(balanced: Balanced) -> None:
    """HAProxy's connect, say LOCAL (or their own address), and close."""
    wait_until(lambda: balanced.haproxy.health() == ["L4OK", "L4OK"], "both have checked")
    assert not re.search(r"closing|Traceback|no connect request", balanced.log_text())


@pytest.mark.parametrize("version", [1, 2])
def test_a_header_of_somebody_else_is_no_header(balanced: Balanced, version: int) -> None:
    forged = [
        b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n",
        bytes.fromhex("0d0a0d0a000d0a515549540a2111000cc0000207c000020800010002"),
    ][version - 1]
    with socket.create_connection(("127.0.0.1", balanced.port), 60) as sock:
        sock.sendall(forged + b"cons")
        with contextlib.suppress(ConnectionResetError):
            assert b"192.0.2.7" not in sock.recv(1000)
    assert "192.0.2.7" not in balanced.log_text()
