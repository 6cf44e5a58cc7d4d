"""Clients of a move that create numbered nodes, each until it is acknowledged: kazoo and Curator."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from py4j.protocol import Py4JJavaError

from lab.servers import wait_until
from tests.clients.jvm import Jvm


class Adder:
    """Creates nodes in a folder, in a thread."""

    def __init__(
        self, folder: str, create: Callable[[str], None], expected: tuple[type[Exception], ...]
    ) -> None:
        self.folder = folder
        self.done = 0
        self.longest_wait = 0.0
        self._create = create
        self._expected = expected
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            begun = time.monotonic()
            while not self._ended.is_set():
                try:
                    self._create(f"{self.folder}/{self.done:08d}")
                except self._expected:
                    time.sleep(0.1)
                else:
                    self.done += 1
                    break
            self.longest_wait = max(self.longest_wait, time.monotonic() - begun)


def kazoo_adder(client: KazooClient) -> Adder:
    """By kazoo."""

    def create(path: str) -> None:
        with contextlib.suppress(NodeExistsError):  # its acknowledgement was lost
            client.create_async(path, b"x").get(timeout=60)

    client.create("/kazoo", b"")
    return Adder("/kazoo", create, (KazooException, KazooTimeoutError))


class Curator:
    """An application with Curator, as most are: its EnsembleTracker is on."""

    def __init__(self, jvm: Jvm, address: str, timeout_ms: int) -> None:
        self._jvm = jvm
        self._address = address
        self._timeout_ms = timeout_ms
        self._client: Any = None

    def start(self) -> None:
        """Connect, and try until it succeeds."""
        policy = self._jvm.find("org.apache.curator.retry.RetryNTimes")(50, 200)
        factory = self._jvm.find("org.apache.curator.framework.CuratorFrameworkFactory")
        self._client = factory.newClient(self._address, self._timeout_ms, 30_000, policy)
        self._client.start()

    def stop(self) -> None:
        """End, with the session."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def servers(self) -> str:
        """The addresses to which it connects from now on."""
        return str(self._client.getZookeeperClient().getCurrentConnectionString())

    def create(self, path: str) -> None:
        """Create a node that may be there. Raises Py4JJavaError, ConnectionError."""
        client = self._client
        if client is None:
            raise ConnectionError("stopped")
        try:
            client.create().forPath(path)
        except Py4JJavaError as error:
            if "NodeExists" not in str(error.java_exception.toString()):
                raise


def curator_adder(curator: Curator) -> Adder:
    """By Curator."""
    wait_until(lambda: _made(curator), "Curator is connected", timeout=600, interval=0.5)
    return Adder("/curator", curator.create, (Py4JJavaError, ConnectionError))


def _made(curator: Curator) -> bool:
    try:
        curator.create("/curator")
    except Py4JJavaError:
        return False
    return True
