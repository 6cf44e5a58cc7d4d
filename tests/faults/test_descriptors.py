"""A proxy with few descriptors: clients and strangers take all that they can get, and etcd restarts."""

import socket
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from lab.client.blocking import Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.ports import free_port

pytestmark = pytest.mark.real

FILES = 200
CLIENTS = 86  # what descriptors.share leaves to them


class SmallServer(ZketcdServer):
    """One that may have few open files."""

    @override
    def command(self) -> Sequence[str]:
        return ["prlimit", f"--nofile={FILES}:{FILES}", *super().command()]


@contextmanager
def _connections(count: int, port: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(count)
        ]


def _open_files(server: ZketcdServer) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def _got(port: int, page: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=30) as answer:
        return str(answer.read().decode())


def _is_ready(port: int) -> bool:
    try:
        return bool(_got(port, "ready"))
    except urllib.error.HTTPError:
        return False


def _client_if_there_is_room(port: int) -> Client | None:
    try:
        return Client(port)
    except Disconnected:
        return None


def test_clients_cannot_take_the_descriptors_that_etcd_and_the_admin_port_need(tmp_path: Path) -> None:
    admin, audit = free_port(), tmp_path / "audit.log"
    with (
        EtcdServer() as etcd,
        SmallServer(
            etcd.endpoint, max_client_connections=0, admin_listen=f"127.0.0.1:{admin}", audit_log=audit
        ) as proxy,
        Client(proxy.port, 40_000) as client,
    ):
        assert f"{FILES} open files: at most {CLIENTS} clients can connect" in proxy.log_text()
        client.create("/before")
        with _connections(300, proxy.port), _connections(100, admin):
            rejected = f"too many connections: more than {CLIENTS}, all that this process may have"
            wait_until(lambda: rejected in proxy.log_text(), "a client that is rejected")
            assert _open_files(proxy) <= FILES - 20
            assert f"zketcd_max_client_connections {CLIENTS}.0" in _got(admin, "metrics")
            etcd.kill()
            time.sleep(1)  # the proxy tries again meanwhile
            etcd.start()
            client.create("/after")
            wait_until(lambda: _is_ready(admin), "the proxy is ready")
        assert "cannot accept" not in proxy.log_text()
        late = wait_until(lambda: _client_if_there_is_room(proxy.port), "the places are free again")
        assert late is not None
        with late:
            assert late.stat("/after")
        assert stat.S_IMODE(audit.stat().st_mode) == 0o640
