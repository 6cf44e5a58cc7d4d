"""`zketcd upgrade`: TLS, the admin port, systemd, and process 1 of a container."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Self

import pytest
from kazoo.client import KazooState
from typing_extensions import override

from lab.client.blocking import EPHEMERAL, Client
from lab.servers import EtcdServer, UpgradableServer, free_port, wait_until
from lab.servers.operator import ctl
from lab.servers.process import REPOSITORY, lives
from lab.servers.tls import Authority
from proxy.handover.supervisor import descendants
from tests.kazoo import kazoo


class Scrapes:
    """Asks the admin port all the time: by a new connection for each request, and by one that is kept.

    Prometheus keeps its connections, and asks again by another one if the server has closed an idle one.
    """

    def __init__(self, port: int) -> None:
        self.answered = 0
        self._port = port
        self._over = threading.Event()
        self._threads = ThreadPoolExecutor(2)

    def __enter__(self) -> Self:
        self._runs = [self._threads.submit(self._run, kept) for kept in (False, True)]
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._threads.shutdown()
        for run in self._runs:
            run.result()

    def _run(self, kept: bool) -> None:
        connection = self._connection()
        fresh = True
        while not self._over.wait(0.01):
            try:
                connection.request("GET", "/metrics")
                answer = connection.getresponse()
                assert answer.status == 200
                assert b"\nzketcd_proxy_info{" in answer.read()
            except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected):
                assert not fresh
                connection, fresh = self._connection(), True
                continue
            self.answered += 1
            fresh = False
            if not kept:
                connection.close()
                connection, fresh = self._connection(), True
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)


def test_the_admin_port_answers_and_clients_with_tls_continue(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("server", "127.0.0.1")
    admin = free_port()
    with UpgradableServer(
        etcd_server.endpoint,
        prefix=etcd_prefix,
        admin_listen=f"127.0.0.1:{admin}",
        tls_cert=files.cert,
        tls_key=files.key,
        tls_client_auth="none",
    ) as server:
        states: list[str] = []
        moved = [KazooState.SUSPENDED, KazooState.CONNECTED]
        with kazoo(server, use_ssl=True, verify_certs=False, timeout=20) as secure:
            secure.add_listener(states.append)  # what it returns is not looked at but for True
            secure.create("/by-tls", b"", ephemeral=True)
            session = secure.client_id
            (before,) = ctl(etcd_server, "proxies", prefix=etcd_prefix)
            with Scrapes(admin) as scrapes:
                assert "has taken over" in server.upgrade()
                wait_until(lambda: states[-2:] == moved, "the client with TLS is back")
                enough = scrapes.answered + 5
                wait_until(lambda: scrapes.answered > enough, "metrics are answered")
            assert states.count(KazooState.SUSPENDED) == 1
            assert secure.client_id == session
            assert secure.exists("/by-tls").ephemeralOwner == session[0]
        (after,) = ctl(etcd_server, "proxies", prefix=etcd_prefix)
        assert [after[name] for name in ("host", "listen", "admin")] == [
            before[name] for name in ("host", "listen", "admin")
        ]
        assert after["proxy"] != before["proxy"]


class Systemd:
    """What systemd hears: each message, and the process that has sent it."""

    def __init__(self, path: Path) -> None:
        self._heard: Queue[tuple[int, str]] = Queue()
        self.alive = 0  # the process that gave the last sign of life
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._hear)
        self._thread.start()

    def next(self) -> tuple[int, str]:
        """The next message but for signs of life."""
        return self._heard.get(timeout=30)

    def _hear(self) -> None:
        while True:
            message, data, _, _ = self._socket.recvmsg(1000, socket.CMSG_SPACE(12))
            pid = int.from_bytes(data[0][2][:4], sys.byteorder)
            if message == b"END":
                return
            if message == b"WATCHDOG=1":
                self.alive = pid
            else:
                self._heard.put((pid, message.decode()))

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"END", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path / "notify")
    yield made
    made.close()


def test_systemd_knows_which_process_serves(
    etcd_server: EtcdServer, etcd_prefix: str, systemd: Systemd, tmp_path: Path
) -> None:
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
    with UpgradableServer(etcd_server.endpoint, prefix=etcd_prefix, variables=variables) as server:
        old = new = server.pid
        assert systemd.next() == (old, "READY=1")
        for _ in range(2):
            assert "has taken over" in server.upgrade()
            new = server.serving
            # The new process is not the main one yet when it is ready: the old one says that it is, and ends.
            assert [systemd.next(), systemd.next()] == [(new, "READY=1"), (old, f"MAINPID={new}")]
            wait_until(lambda pid=old: not lives(pid), "the old process has ended")  # type: ignore[misc]
            old = new
        wait_until(lambda: systemd.alive == new, "the new process gives signs of life")
        os.kill(new, signal.SIGTERM)
        assert systemd.next() == (new, "STOPPING=1")


class Contained(UpgradableServer):
    """A zketcd as process 1 of process ids of their own, as in a container."""

    @override
    def command(self) -> Sequence[str]:
        return ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *super().command()]

    @property
    def inner(self) -> int:
        """Process 1 of the container, as it is known outside."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0])

    @override
    def upgrade(self) -> str:
        """As by `docker exec`."""
        enter = ["nsenter", "--target", str(self.inner), "--pid", "--mount"]
        command = [*enter, sys.executable, "-m", "zketcd", "upgrade"]
        variables = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=variables
        )
        return done.stdout + done.stderr

    def processes(self) -> list[str]:
        """The command lines in the container, that of process 1 first; empty ones of zombies."""
        found = []  # not by their numbers: the kernel's start again at 32768
        for pid in sorted(descendants(self.pid), key=lambda pid: pid != self.inner):
            with suppress(OSError):  # it has ended meanwhile
                found.append(Path(f"/proc/{pid}/cmdline").read_text())
        return found


@contextmanager
def _contained(etcd: EtcdServer, prefix: str) -> Iterator[Contained]:
    tried = shutil.which("unshare") and subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False, capture_output=True, text=True
    )
    if not tried or tried.returncode:
        pytest.skip(f"no namespaces of process ids here: {tried and tried.stderr.strip()}")
    with Contained(etcd.endpoint, prefix=prefix) as server:
        yield server


def test_process_1_of_a_container_stays_and_ends_with_the_one_that_serves(
    etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with _contained(etcd_server, etcd_prefix) as server, Client(server.port) as idle:
        idle.create("/idle", mode=EPHEMERAL)
        for _ in range(2):
            assert re.fullmatch(r"process \d+ has taken over\n", server.upgrade())
            idle.ping()
        wait_until(
            lambda: len(server.processes()) == 2, "process 1 and the one that serves are left, and no zombie"
        )
        assert "proxy.handover.supervisor" in server.processes()[0]
        assert idle.owner("/idle") == idle.id
        # As `docker stop` does it: the one that serves drains, and the container ends with its status.
        os.kill(server.inner, signal.SIGTERM)
        assert server.wait() == 0
        assert "draining" in server.log_text()
        server.start()
        idle.reconnect(server.port)
        assert idle.owner("/idle") == idle.id


def test_two_containers_with_one_network_do_not_meet(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with _contained(etcd_server, etcd_prefix) as first, _contained(etcd_server, etcd_prefix) as second:
        for server in (first, second):
            assert re.fullmatch(r"process \d+ has taken over\n", server.upgrade())
            with Client(server.port) as client:
                assert client.stat("/zookeeper") is not None
