"""Clients that write without pause while a test breaks things, and know exactly what has to come of it.

Each has a node of its own, whose versions it foretells, and shares a queue and a counter with the others.
Every answer is checked when it comes, the tree at the end: what is lost, doubled or answered wrongly shows.
"""

from lab.client import blocking as zk
from lab.client.blocking import BAD_VERSION, OK, SEQUENTIAL, Client
from tests.faults.workers import Worker, Workers

_COUNTER = "/counter"
_QUEUE = "/queue"
_BURST = 6


class _Writer(Worker):
    """One client with a node of its own."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(Client(port), f"/own-{number}")
        self.sets = 0  # of the own node
        self.increments = 0  # of the shared counter
        self.created: list[str] = []  # in the shared queue
        self.own_created: list[str] = []

    def work(self) -> None:
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
        self.rounds += 1


class Writers(Workers[_Writer]):
    """Writers at work from the beginning of the `with` to `verify`."""

    def __init__(self, *ports: int, count: int = 6) -> None:
        """`ports`: of the proxies, over which the writers are spread."""
        self._ports = ports
        with Client(ports[0]) as client:
            client.create(_COUNTER, b"0")
            client.create(_QUEUE)
        super().__init__([_Writer(ports[number % len(ports)], number) for number in range(count)])
        for writer in self.each:
            writer.client.sync()

    def progress(self, rounds: int = 2, timeout: float = 60.0) -> None:
        """Wait until every writer has got the answers of so many more bursts."""
        super().progress(rounds, timeout)

    def verify(self) -> None:
        """Let all writers finish, and compare the tree with their answers."""
        self.finish()
        for port in self._ports:
            with Client(port) as client:
                client.sync()
                self._verify(client)

    def _verify(self, client: Client) -> None:
        done = sum(writer.increments for writer in self.each)
        data, stat = client.read(_COUNTER)
        assert (int(data), stat.version) == (done, done), "increments lost or doubled"
        _compare(client, _QUEUE, [path for writer in self.each for path in writer.created])
        for writer in self.each:
            assert client.read(writer.own)[1].version == writer.sets
            _compare(client, writer.own, writer.own_created)
            assert writer.own_created == sorted(writer.own_created), "created out of order"


def _compare(client: Client, parent: str, told: list[str]) -> None:
    """The children of a queue are those of the answers: once each, without gaps, counted right."""
    names, stat = client.children(parent)
    assert sorted(path.rpartition("/")[2] for path in told) == [f"n-{n:010d}" for n in range(len(told))]
    assert names == {path.rpartition("/")[2] for path in told}
    assert (stat.cversion, stat.num_children) == (len(told), len(told))
