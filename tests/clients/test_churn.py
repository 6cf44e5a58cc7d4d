"""Clients write while their servers, and etcd, die and hang: what was acknowledged is there, once.

A write whose answer was lost with a connection may be there or not, but never twice.
"""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lab.client.blocking import BAD_VERSION, LONG_MS, SEQUENTIAL, Client, Disconnected, Refused
from lab.servers import EtcdServer, wait_until
from lab.servers.process import ServerProcess
from tests.clients.conftest import ON_ZOOKEEPER, two_servers

Pair = tuple[ServerProcess, ServerProcess]

WORKERS = 16
# Longer than zketcd waits for one answer of etcd, and shorter than the sessions' timeout.
PAUSE_S = 6.0
# A ZooKeeper that is just starting may leave a connect request without an answer for ever.
PATIENCE_S = 10.0


@pytest.fixture
def churned(own_etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[Pair]:
    with two_servers(own_etcd_server, etcd_prefix) as servers:
        yield servers


class _Worker:
    """Writes tokens that nobody writes twice, and keeps what came of each."""

    def __init__(self, number: int, servers: Pair) -> None:
        self.names: dict[bytes, str] = {}  # of acknowledged sequential nodes, by their data
        self.versions: list[int] = []  # of acknowledged versioned sets
        self.lost_creates: set[bytes] = set()
        self.lost_sets = 0
        self._number = number
        self._servers = servers
        self._random = random.Random(number)

    def run(self, ended: threading.Event) -> None:
        port = self._servers[self._number % 2].port
        with Client(port, LONG_MS, PATIENCE_S) as client:
            for count in itertools.count():
                if ended.is_set():
                    return
                token = b"%d-%d" % (self._number, count)
                if self._random.random() < 0.5:
                    self._create(client, token)
                else:
                    self._set(client, token)

    @property
    def acknowledged(self) -> int:
        return len(self.names) + len(self.versions)

    def _create(self, client: Client, token: bytes) -> None:
        try:
            self.names[token] = client.create("/queue/n-", token, SEQUENTIAL)
        except Disconnected:
            self.lost_creates.add(token)
            self._reconnect(client)

    def _set(self, client: Client, token: bytes) -> None:
        try:
            _, stat = client.read("/register")
            self.versions.append(client.write("/register", token, stat.version).version)
        except Disconnected:
            self.lost_sets += 1
            self._reconnect(client)
        except Refused as refused:
            if refused.code != BAD_VERSION:
                raise

    def _reconnect(self, client: Client) -> None:
        refusals: list[str] = []

        def reconnected() -> bool:
            try:
                client.reconnect(self._random.choice(self._servers).port)
            except (Disconnected, OSError) as refusal:
                refusals.append(str(refusal))
                return False
            return True

        try:
            wait_until(reconnected, "a server takes the session", timeout=60)
        except TimeoutError as late:
            late.add_note(f"client has seen zxid 0x{client.zxid:x}; the last refusals: {refusals[-3:]}")
            raise


def test_what_is_acknowledged_is_there_once(churned: Pair, own_etcd_server: EtcdServer) -> None:
    first, second = churned
    with Client(first.port, LONG_MS) as client:
        client.create("/queue")
        client.create("/register")
        client.close()
    workers = [_Worker(number, churned) for number in range(WORKERS)]
    ended = threading.Event()
    with ThreadPoolExecutor(WORKERS) as threads:
        futures = [threads.submit(worker.run, ended) for worker in workers]
        try:
            for disturb in _disturbances(first, second, own_etcd_server):
                _wait_for_progress(workers, futures)
                disturb()
            _wait_for_progress(workers, futures)
        finally:
            ended.set()
        for future in futures:
            future.result()

    for server in churned:
        with Client(server.port, LONG_MS) as client:
            client.sync()
            _check(client, workers)
            client.close()


def _check(client: Client, workers: list[_Worker]) -> None:
    children, stat = client.children("/queue")
    names = sorted(f"/queue/{name}" for name in children)
    assert names == [f"/queue/n-{number:010d}" for number in range(len(names))], "no gap"
    assert stat.cversion == len(names)

    stored = {name: client.read(name)[0] for name in names}
    twice = [token for token, times in Counter(stored.values()).items() if times > 1]
    assert not twice
    for worker in workers:
        assert {token: stored.get(name) for token, name in worker.names.items()} == {
            token: token for token in worker.names
        }
    acknowledged = {token for worker in workers for token in worker.names}
    assert set(stored.values()) - acknowledged <= {token for w in workers for token in w.lost_creates}

    versions = Counter(version for worker in workers for version in worker.versions)
    assert max(versions.values()) == 1, "each version was acknowledged to one writer"
    not_acknowledged = client.read("/register")[1].version - len(versions)
    assert 0 <= not_acknowledged <= sum(worker.lost_sets for worker in workers)


def _disturbances(
    first: ServerProcess, second: ServerProcess, etcd: EtcdServer
) -> list[Callable[[], object]]:
    def crash(server: ServerProcess) -> None:
        server.kill()
        server.start()

    def hang(server: ServerProcess) -> None:
        server.pause()
        time.sleep(PAUSE_S)  # the pause is what is tested
        server.resume()

    servers: list[Callable[[], object]] = [lambda: crash(first), second.restart, lambda: hang(first)]
    if ON_ZOOKEEPER:
        return servers
    return [*servers, lambda: hang(etcd), lambda: crash(etcd), lambda: crash(second)]


def _wait_for_progress(workers: list[_Worker], futures: list[Future[None]]) -> None:
    """Wait until each worker has had a few more writes acknowledged. Raises what ended one of them."""
    goals = [(worker, worker.acknowledged + 5) for worker in workers]

    def reached() -> bool:
        for future in futures:
            if future.done():
                future.result()
        return all(worker.acknowledged >= goal for worker, goal in goals)

    wait_until(reached, "all go on writing", timeout=60)
