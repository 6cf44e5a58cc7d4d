"""What runs during a follow: a command of the pipeline, clients that write, an etcd that fails."""

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.servers import EtcdServer
from lab.servers.process import ServerProcess
from lab.servers.waiting import wait_until
from pipeline.follow.target import position_of
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdUnknown, Get, Txn, TxnResult
from schema.keys import Keyspace


class PipelineCommand(ServerProcess):
    """`zketcd follow` or `zketcd export --follow`; it may be killed and started again."""

    kind = "pipeline"

    def __init__(self, *arguments: str) -> None:
        super().__init__()
        self._arguments = arguments

    def command(self) -> Sequence[str]:
        """The command line."""
        return [sys.executable, "-m", "zketcd", *self._arguments]

    def serves(self) -> bool:
        """Whether it has said how far it is."""
        return "zxid" in self.log_text()

    def wait_until_level(self) -> None:
        """Wait until it says so."""
        wait_until(lambda: "level at zxid" in self.log_text(), f"{self.name} is level", 60)


class Comer:
    """A client that writes all the time, in a thread, and comes again after each lost connection."""

    def __init__(self, *ports: int) -> None:
        """`ports` are of one ensemble's members."""
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1)
        # A server that starts may take a connection and never answer: within the timeout it is tried again.
        self._client = KazooClient(
            ",".join(f"127.0.0.1:{port}" for port in ports),
            timeout=3.0,
            connection_retry=retry,
            command_retry=retry.copy(),
        )
        #: The zxid of the last write that was acknowledged.
        self.last_zxid = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._client.start(60)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.stop()
        self._client.close()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        ephemeral = False
        while not self._stop.wait(0.02):  # all servers pay for each write
            ephemeral = not ephemeral
            self._client.retry(self._client.create, "/n-", b"x", ephemeral=ephemeral, sequence=True)
            self.last_zxid = self._client.last_zxid

    def go_on(self) -> int:
        """Wait until some more was written; the zxid of what was."""
        enough = self.last_zxid + 15
        return wait_until(lambda: self.last_zxid > enough and self.last_zxid, "clients write on", 60)


class Stopped(Exception):
    """The process was killed."""


class Killed(FakeEtcdClient):
    """A client whose process is killed at one of its Txns that put something: before, or after it counts."""

    def __init__(self, store: FakeEtcd, at: int, *, counts: bool, lost: bool = False) -> None:
        super().__init__(store)
        self.left = at
        self._counts = counts
        self._lost = lost

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        if all(isinstance(op, Get) for op in txn.success):
            return await super().txn(txn, timeout)
        self.left -= 1
        if self.left:
            return await super().txn(txn, timeout)
        if self._counts:
            await super().txn(txn, timeout)
        if self._lost:
            raise EtcdUnknown("the answer was lost")
        raise Stopped


def at_each_txn(
    *, counts: bool, lost: bool = False, more_than: int
) -> Iterator[Callable[[FakeEtcd], Killed]]:
    """For each Txn of a program, what makes its client of an etcd; at last one that comes to its end.

    `more_than`: how many Txns a program has at the least.
    """
    for at in itertools.count(1):
        made: list[Killed] = []

        def killed_in(store: FakeEtcd, at: int = at, made: list[Killed] = made) -> Killed:
            made.append(Killed(store, at, counts=counts, lost=lost))
            return made[-1]

        yield killed_in
        if made[0].left > 0:
            assert at > more_than
            return


class Failing(FakeEtcdClient):
    """An etcd in memory, out of reach for `length` requests in a row, from the request `at` on; 0: never."""

    error = EtcdUnknown("no member answers")

    def __init__(self, store: FakeEtcd, at: int, length: int = 30) -> None:
        super().__init__(store)
        self.requests = 0
        self._outage = range(at, at + length) if at else range(0)

    async def _contact(self) -> None:
        self.requests += 1
        if self.requests in self._outage:
            raise self.error
        await super()._contact()


def wait_for_zxid(etcd_server: EtcdServer, keys: Keyspace, zxid: int) -> None:
    """Wait until what the tree in etcd has followed includes a transaction."""

    async def followed() -> int:
        client = EtcdClient([etcd_server.endpoint])
        try:
            position = await position_of(client, keys)
        finally:
            await client.close()
        return 0 if position is None else position.zxid

    wait_until(lambda: asyncio.run(followed()) >= zxid, f"zxid {zxid:#x} is in etcd", 60, interval=0.1)
