"""Sessions live on while their clients are not read from: TLS, two proxies, limits, a new process.

tests/compat/test_slow_readers.py compares slow clients of ZooKeeper and zketcd.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from codec.client import create, get, set_data
from lab.client.blocking import EPHEMERAL, Client
from lab.client.slow import SlowClient
from lab.servers import EtcdServer, wait_until
from lab.servers.relay import Quality, Relays
from lab.servers.tls import Authority
from tests.faults.conftest import Start
from tests.faults.test_hot_restart import Upgradable
from tests.faults.test_overload import memory_of

_TIMEOUT_MS = 3000
_TIMEOUT = _TIMEOUT_MS / 1000
_LONG = 3 * _TIMEOUT
_LARGE = 900_000  # bytes
_MIB = 1 << 20


@pytest.mark.parametrize(("secure", "rate"), [(False, 300_000), (True, 0)])
def test_at_another_proxy_a_slow_readers_session_lives_as_long_as_it_pings(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, secure: bool, rate: int
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "127.0.0.1")
    tls = {"tls_cert": pair.cert, "tls_key": pair.key, "tls_client_auth": "none"} if secure else {}
    first = start(etcd_server, prefix=etcd_prefix, **tls)
    second = start(etcd_server, prefix=etcd_prefix)
    context = authority.client_context() if secure else None
    with SlowClient(first.port, _TIMEOUT_MS, tls=context) as slow, Client(second.port) as other:
        other.create("/large", bytes(_LARGE))
        slow.ask(create("/mine", mode=EPHEMERAL), *[get("/large")] * 25)
        slow.live(_LONG, rate=rate)
        other.sync()
        assert other.stat("/mine") is not None
        assert slow.errors(26) == [0] * 26
        slow.ask(*[get("/large")] * 25)
        slow.live(_TIMEOUT, rate=rate)
        slow.vanish()
        wait_until(lambda: other.stat("/mine") is None, "the session of a client that is gone ends")


def test_memory_stays_bounded_whatever_slow_readers_ask_for(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    """Eight of them want 180 MB of replies, and send 72 MB of writes behind that: 3 MiB of each are kept."""
    proxy = start(own_etcd_server)
    count = 8
    with Client(proxy.port) as other, ExitStack() as stack:
        other.create("/large", bytes(_LARGE))
        other.read("/large")
        before = memory_of(proxy)
        pool = stack.enter_context(ThreadPoolExecutor(2 * count))
        clients = [stack.enter_context(SlowClient(proxy.port, _TIMEOUT_MS)) for _ in range(count)]
        for number, slow in enumerate(clients):
            slow.ask(create(f"/mine-{number}", mode=EPHEMERAL), *[get("/large")] * 25)
            stack.callback(slow.drop)  # ends the thread
            pool.submit(slow.ask, *[set_data("/large", bytes(_LARGE))] * 10)
        for living in [pool.submit(slow.live, _LONG, rate=300_000) for slow in clients]:
            living.result()
        assert memory_of(proxy) - before < count * 3 * _MIB
        for number in range(count):
            assert other.stat(f"/mine-{number}") is not None


def test_clients_over_the_global_limit_keep_their_sessions_while_their_requests_wait(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    """The way to etcd is so slow that the writes take several timeouts. Pings wait behind them, unread."""
    with Relays() as relays, ThreadPoolExecutor(4) as pool:
        port = relays.listen("proxy", "etcd", own_etcd_server.port)
        proxy = start(f"http://127.0.0.1:{port}", global_outstanding_limit=1)
        with Client(proxy.port) as client:
            client.create("/a")
        relays.change({("proxy", "etcd"): Quality(bandwidth=1_200_000)})

        def write(number: int) -> float:
            with SlowClient(proxy.port, _TIMEOUT_MS) as slow:
                path = f"/mine-{number}"
                slow.ask(create(path, mode=EPHEMERAL))
                assert slow.errors(1) == [0]
                began = time.monotonic()
                sent = pool.submit(slow.ask, *[set_data(path, bytes(_LARGE))] * 8)
                slow.live(_LONG)
                assert slow.errors(8) == [0] * 8
                sent.result()
                return time.monotonic() - began

        with ThreadPoolExecutor(2) as writers:
            assert max(writers.map(write, range(2))) > _LONG


def test_a_slow_readers_session_survives_a_new_process(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    """Its connection is closed, since its replies cannot move; it continues at the new process."""
    with Upgradable(etcd_server.endpoint, etcd_prefix, tmp_path) as server, Client(server.port) as other:
        other.create("/large", bytes(_LARGE))
        with SlowClient(server.port, 10_000) as slow:
            slow.ask(create("/mine", mode=EPHEMERAL), *[get("/large")] * 25)
            slow.live(3.0, rate=300_000)
            with ThreadPoolExecutor(1) as pool:
                upgraded = pool.submit(server.upgrade)
                with pytest.raises(ConnectionError):
                    slow.live(60.0, rate=300_000)
                upgraded.result()
            with SlowClient(server.port, 10_000, former=slow) as again:
                assert again.session == slow.session
                assert other.stat("/mine") is not None
