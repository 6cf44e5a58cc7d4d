"""Clients that write as fast as they are answered, and the account of what they were told."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.faults import client as zk
from tests.faults.client import SEQUENTIAL, Client
from tests.harness import wait_until

_AT_ONCE = 5


class Writers:
    """One thread a client: creates sequential nodes and counts up a node's version, some at once.

    Every request has to be answered, and with success: whoever loses one, or gets it done twice, is found by
    `settle`.
    """

    def __init__(self, ports: Sequence[int], clients: int, base: str = "/load") -> None:
        self._base = base
        self._clients = [Client(ports[number % len(ports)]) for number in range(clients)]
        self._clients[0].create(base)
        self._clients[0].create(f"{base}/counter")
        for client in self._clients:
            client.sync()
        self._done = threading.Event()
        self._failures: list[Exception] = []
        self._names: list[str] = []
        self._versions: list[int] = []
        self._threads = [threading.Thread(target=self._run, args=(client,)) for client in self._clients]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        for client in self._clients:
            if kind is not None:
                client.drop()
        for thread in self._threads:
            thread.join()
        for client in self._clients:
            client.drop()

    @property
    def answered(self) -> int:
        """The number of answers so far."""
        return len(self._names) + len(self._versions)

    def more(self, count: int = 50) -> None:
        """Wait for further answers: all is well again."""
        goal = self.answered + count
        wait_until(lambda: self.answered >= goal or self._failures, f"{count} more answers", timeout=60)
        assert not self._failures, self._failures

    def settle(self) -> None:
        """Stop, and compare what the clients were told with what is there."""
        self._done.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures, self._failures
        client = self._clients[0]
        client.sync()
        names, stat = client.children(self._base)
        assert sorted(self._names) == [f"{self._base}/n-{n:010d}" for n in range(1, len(self._names) + 1)]
        assert names == {"counter", *(name.rpartition("/")[2] for name in self._names)}
        assert stat.cversion == len(self._names) + 1
        assert sorted(self._versions) == list(range(1, len(self._versions) + 1)), "each set happened once"
        assert client.read(f"{self._base}/counter")[1].version == len(self._versions)

    def _run(self, client: Client) -> None:
        try:
            while not self._done.is_set():
                xids = client.send(
                    *[
                        zk.create(f"{self._base}/n-", b"", SEQUENTIAL),
                        zk.set_data(f"{self._base}/counter", b"x"),
                    ]
                    * _AT_ONCE
                )
                for create, set_data in zip(xids[::2], xids[1::2], strict=True):
                    self._names.append(str(client.result(create).string()))
                    self._versions.append(client.result(set_data).stat().version)
        except Exception as error:  # noqa: BLE001 - the main thread tells it
            self._failures.append(error)
