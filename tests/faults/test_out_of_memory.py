"""Memory runs out: the process ends with an exit code that is not 0, or continues. It is never deaf."""

import contextlib
import resource
import threading
from itertools import count
from pathlib import Path

import pytest

from codec.client import ZooKeeperError
from lab.client.blocking import SEQUENTIAL, Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.waiting import wait_until
from tests.faults.conftest import Start

pytestmark = pytest.mark.real

_MIB = 1 << 20
_WRITERS = 4


def _address_space(pid: int) -> int:
    """Bytes that the process has mapped."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


class _Writers:
    """Clients that fill the tree with new nodes, until their connections end."""

    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._size = size
        self._names = count()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._write) for _ in range(_WRITERS)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        with contextlib.suppress(OSError, Disconnected), Client(self._port, timeout_s=5.0) as client:
            while not self._stopped.is_set():
                with contextlib.suppress(ZooKeeperError):
                    client.create(f"/n{next(self._names)}", bytes(self._size))


def _answers(server: ZketcdServer) -> bool:
    """Whether a new client's write gets an outcome."""
    with contextlib.suppress(OSError, Disconnected), Client(server.port, timeout_s=5.0) as client:
        with contextlib.suppress(ZooKeeperError):
            client.create("/works-", b"", SEQUENTIAL)
        return True
    return False


@pytest.mark.parametrize(("room", "size"), [(2, 1 << 10), (4, 100 << 10), (8, 500 << 10), (16, 10 << 10)])
def test_no_server_is_deaf(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str, room: int, size: int
) -> None:
    """`room`: MiB that the process may still map. `size`: bytes of each node."""
    server = start(etcd_server, prefix=etcd_prefix)
    limit = _address_space(server.pid) + room * _MIB
    resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, limit))
    with _Writers(server.port, size):
        for _ in range(5):
            wait_until(lambda: not server.alive or _answers(server), "an end, or an answer", 120)
    wait_until(lambda: not server.alive or _answers(server), "an end, or an answer", 120)
    if not server.alive:
        assert server.wait() != 0
