"""Proxies with --peer-listen on a real etcd: they append together, and continue without the combiner."""

import itertools
import os
import re
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from lab.servers import EtcdServer, UpgradableServer, ZketcdServer, free_port, wait_until
from lab.servers.tls import Authority
from tests.kazoo import kazoo

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

_PEER: dict[str, Any] = {"peer_listen": "127.0.0.1:0"}


def _counts(server: ZketcdServer) -> tuple[int, int]:
    """Entries that a proxy has combined, and that it has handed over."""
    address = re.findall(r"admin HTTP server on (\S+)", server.log_text())[-1]
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        text = answer.read().decode()
    names = ("entries_combined", "entries_offered")
    found = [re.search(rf"^zketcd_log_{name}_total (\S+)", text, re.MULTILINE) for name in names]
    return int(float(found[0][1])), int(float(found[1][1]))  # type: ignore[index]


@contextmanager
def _proxies(etcd: EtcdServer, **options: Any) -> Iterator[Sequence[ZketcdServer]]:
    with ExitStack() as stack:
        options = {"admin_listen": "127.0.0.1:0", **_PEER, **options}
        yield [stack.enter_context(ZketcdServer(etcd.endpoint, **options)) for _ in range(3)]


def _write(clients: Sequence[KazooClient], name: str, count: int = 30) -> None:
    """Each client creates nodes, one after the other; all at once. None is lost or made twice."""

    def run(number: int, client: KazooClient) -> None:
        for each in range(count):
            client.create(f"/{name}-{number}-{each:03d}")

    threads = [threading.Thread(target=run, args=given) for given in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for client in clients:
        client.sync("/")
        made = [child for child in client.get_children("/") if child.startswith(f"{name}-")]
        assert len(made) == count * len(clients)


def _write_until(clients: Sequence[KazooClient], name: str, is_done: Callable[[], bool]) -> None:
    """Write until something holds; a slow machine lets proxies append alone for a while."""
    turns = itertools.count()
    while not is_done():
        _write(clients, f"{name}{next(turns)}")


def _joined(servers: Sequence[ZketcdServer], times: int = 1) -> None:
    """Wait until each of these proxies has handed its entries to a combiner so many times."""
    for server in servers:
        wait_until(
            lambda: server.log_text().count("appends for this one") >= times,  # noqa: B023 - called at once
            f"{server.name} finds the combiner",
        )


@pytest.fixture
def etcd() -> Iterator[EtcdServer]:
    with EtcdServer() as server:
        yield server


def test_proxies_append_together_and_without_the_combiner(etcd: EtcdServer) -> None:
    with _proxies(etcd) as servers, ExitStack() as stack:
        _joined(servers[1:])
        clients = [stack.enter_context(kazoo(server)) for server in servers]
        _write_until(clients, "a", lambda: _counts(servers[0])[0] > 60)
        assert all(_counts(server)[1] for server in servers[1:])

        os.kill(servers[0].pid, signal.SIGSTOP)  # a combiner that hangs
        try:
            _write(clients[1:], "b", 5)
        finally:
            os.kill(servers[0].pid, signal.SIGCONT)

        servers[0].kill()
        clients[0].stop()
        _joined(servers[2:], 2)
        _write_until(clients[1:], "c", lambda: _counts(servers[1])[0] > 20)


def test_over_tls_only_with_a_certificate_of_the_ca(etcd: EtcdServer, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    server, stranger = authority.issue("server"), other.issue("stranger")
    given: dict[str, Any] = {
        "tls_cert": server.cert,
        "tls_key": server.key,
        "tls_ca": authority.ca,
        "tls_client_auth": "want",
    }
    with _proxies(etcd, **given) as servers, ExitStack() as stack:
        _joined(servers[1:])
        clients = [stack.enter_context(kazoo(server)) for server in servers]
        _write_until(clients, "a", lambda: _counts(servers[0])[0] > 60)
        odd = {**given, "tls_ca": other.ca, "tls_cert": stranger.cert, "tls_key": stranger.key}
        with ZketcdServer(etcd.endpoint, **_PEER, **odd) as late:
            wait_until(lambda: "cannot hand entries to proxy" in late.log_text(), "the handshake fails")
            with kazoo(late) as client:
                client.create("/direct")


def test_a_process_that_takes_over_has_the_port(etcd: EtcdServer) -> None:
    peer = f"127.0.0.1:{free_port()}"
    with (
        UpgradableServer(etcd.endpoint, peer_listen=peer) as first,
        ZketcdServer(etcd.endpoint, **_PEER) as other,
    ):
        _joined([other])
        with kazoo(first) as one, kazoo(other) as two:
            _write([one, two], "a")
            first.upgrade()
            _write([one, two], "b")
            _joined([first])  # the other one is older now
            _write([one, two], "c")
