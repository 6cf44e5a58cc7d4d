"""Clients that write all the time while a test breaks things, and know exactly what has to come of it.

Each has a node of its own, whose versions it foretells, and shares a queue and a counter with the others.
Every answer is checked when it comes, the tree at the end: what is lost, doubled or answered wrongly shows.
"""

import threading
import time
from typing import Self

from codec import client as zk
from lab.client.blocking import BAD_VERSION, OK, SEQUENTIAL, Client
from lab.servers import wait_until

_COUNTER = "/counter"
_QUEUE = "/queue"
_BURST = 6
_BETWEEN_S = 0.02  # bursts of one client: enough that some of six is always on its way
_TIMEOUT_S = 60.0


class _Writer:
    """One client with a node of its own, and its thread."""

    def __init__(self, port: int, number: int) -> None:
        self.client = Client(port)
        self.own = f"/own-{number}"
        self.client.create(self.own)
        self.client.sync()
        self.bursts = 0
        self.sets = 0  # of the own node
        self.increments = 0  # of the shared counter
        self.created: list[str] = []  # in the shared queue
        self.own_created: list[str] = []
        self.failure: BaseException | None = None
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self.stopping:
                self._write()
                time.sleep(_BETWEEN_S)
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            self.failure = failure

    def _write(self) -> None:
        """Many writes at once to the node of its own, one to the shared queue, one increment."""
        data, stat = self.client.read(_COUNTER)
        requests: list[zk.Request[object]] = []
        for ahead in range(_BURST):
            requests.append(zk.set_data(self.own, b"", self.sets + ahead))
            requests.append(zk.create(f"{self.own}/n-", b"", SEQUENTIAL))
        requests.append(zk.create(f"{_QUEUE}/n-", b"", SEQUENTIAL))
        requests.append(zk.set_data(_COUNTER, b"%d" % (int(data) + 1), stat.version))
        xids = self.client.send(*requests)
        for xid in xids[: 2 * _BURST : 2]:
            version = self.client.result(xid).version
            self.sets += 1
            assert version == self.sets, f"{self.own}: version {version} after {self.sets} sets"
            self.own_created.append(self.client.result(xid + 1))
        self.created.append(self.client.result(xids[-2]))
        error = self.client.reply_to(xids[-1]).err
        assert error in (OK, BAD_VERSION), f"increment: error {error}"
        self.increments += error == OK
        self.bursts += 1


class Writers:
    """Writers at work from the beginning of the `with` to `verify`."""

    def __init__(self, *ports: int, count: int = 6) -> None:
        """`ports`: of the proxies, over which the writers are spread."""
        self._ports = ports
        with Client(ports[0]) as client:
            client.create(_COUNTER, b"0")
            client.create(_QUEUE)
        self._writers = [_Writer(ports[number % len(ports)], number) for number in range(count)]

    def __enter__(self) -> Self:
        for writer in self._writers:
            writer.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.stopping = True
            writer.client.drop()

    def progress(self) -> None:
        """Wait until every writer has got the answers of two more bursts."""
        goals = [(writer, writer.bursts + 2) for writer in self._writers]

        def done() -> bool:
            self._raise_failure()
            return all(writer.bursts >= goal for writer, goal in goals)

        wait_until(done, "the work of every client", timeout=_TIMEOUT_S)

    def verify(self) -> None:
        """Let all writers finish, and compare the tree with their answers."""
        for writer in self._writers:
            writer.stopping = True
        for writer in self._writers:
            writer.thread.join(_TIMEOUT_S)
            assert not writer.thread.is_alive(), f"a reply is missing for {writer.own}"
        self._raise_failure()
        for port in self._ports:
            with Client(port) as client:
                client.sync()
                self._verify(client)

    def _raise_failure(self) -> None:
        for writer in self._writers:
            if writer.failure is not None:
                raise AssertionError(f"the client of {writer.own} failed") from writer.failure

    def _verify(self, client: Client) -> None:
        done = sum(writer.increments for writer in self._writers)
        data, stat = client.read(_COUNTER)
        assert (int(data), stat.version) == (done, done), "increments lost or doubled"
        _compare(client, _QUEUE, [path for writer in self._writers for path in writer.created])
        for writer in self._writers:
            assert client.read(writer.own)[1].version == writer.sets
            _compare(client, writer.own, writer.own_created)
            assert writer.own_created == sorted(writer.own_created), "created out of order"


def _compare(client: Client, parent: str, created: list[str]) -> None:
    """The children of a queue are those of the answers: once each, without gaps, counted right."""
    names, stat = client.children(parent)
    assert sorted(path.rpartition("/")[2] for path in created) == [f"n-{n:010d}" for n in range(len(created))]
    assert names == {path.rpartition("/")[2] for path in created}
    assert (stat.cversion, stat.num_children) == (len(created), len(created))
