"""The admin HTTP server of a real process: as it loads, drains, is upgraded, and if its port is taken."""

import contextlib
import os
import signal
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.servers import EtcdServer, StartFailed, UpgradableServer, ZketcdServer, free_port, wait_until
from lab.servers.operator import ask, metric
from tests.kazoo import kazoo

pytestmark = pytest.mark.real


def test_it_says_that_the_server_is_not_ready_before_the_drain_ends(own_etcd_server: EtcdServer) -> None:
    admin = free_port()
    with (
        ZketcdServer(own_etcd_server.endpoint, admin_listen=f"127.0.0.1:{admin}") as server,
        contextlib.ExitStack() as stack,
    ):
        assert ask(admin, "/ready")[0] == 200
        client = stack.enter_context(kazoo(server))
        own_etcd_server.pause()
        try:
            waiting = client.create_async("/a")
            wait_until(lambda: metric(admin, "outstanding_requests") == 1, "the write")
            os.kill(server.pid, signal.SIGTERM)
            wait_until(lambda: ask(admin, "/ready")[0] == 503, "the drain")
            assert ask(admin, "/ready")[1]["details"]["serving"] is False
            assert ask(admin, "/live")[0] == 200
        finally:
            own_etcd_server.resume()
        assert server.wait() == 0
        assert waiting.get(timeout=10) == "/a"
        assert ask(admin, "/live") == (0, None)


def test_a_probe_is_answered_by_a_ready_server_at_each_moment_of_an_upgrade(
    etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """The old process closed some that it had just accepted, and said to others that it was stopping."""
    admin = free_port()
    answers = Counter[int]()
    done = threading.Event()

    def probe() -> None:
        while not done.wait(0.002):
            answers[ask(admin, "/ready")[0]] += 1

    with (
        UpgradableServer(etcd_server.endpoint, prefix=etcd_prefix, admin_listen=f"127.0.0.1:{admin}") as made,
        ThreadPoolExecutor() as pool,
    ):
        probes = [pool.submit(probe) for _ in range(2)]
        try:
            for _ in range(2):
                assert "has taken over" in made.upgrade()
        finally:
            done.set()
        for each in probes:
            each.result()
    assert set(answers) == {200}


def test_it_answers_while_etcd_is_out_of_reach_and_the_tree_not_loaded() -> None:
    admin = free_port()
    with contextlib.ExitStack() as stack:
        server = ZketcdServer(f"http://127.0.0.1:{free_port()}", admin_listen=f"127.0.0.1:{admin}")
        stack.callback(server.close)
        server.launch()
        wait_until(lambda: ask(admin, "/live")[0] == 200, "the admin server")
        assert ask(admin, "/ready")[0] == 503
        assert "not currently serving" in ask(admin, "/commands/conf")[1]["error"]
        assert server.stop() == 0


def test_a_port_that_was_asked_for_and_is_taken_ends_the_start(etcd_server: EtcdServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = ZketcdServer(etcd_server.endpoint, prefix="/admin-taken", admin_listen=address)
        try:
            with pytest.raises(
                StartFailed, match=f"zketcd: cannot listen on {address}: Address already in use"
            ):
                server.start()
        finally:
            server.close()


def test_the_default_port_is_done_without_if_it_is_taken(etcd_server: EtcdServer) -> None:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another process has it: as well
            stack.enter_context(socket.create_server(("127.0.0.1", 8080)))
        with ZketcdServer(etcd_server.endpoint, prefix="/admin-default", admin_listen=None) as server:
            assert "no admin HTTP server: cannot listen on 127.0.0.1:8080" in server.log_text()
            (ready,) = (line for line in server.log_text().splitlines() if line.startswith("ready"))
            assert ready.endswith(", no admin HTTP server")
