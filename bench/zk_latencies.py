"""`python -m bench.zk_latencies`: options and output of zk-smoketest's zk-latencies.py, on kazoo.

So figures can be laid beside those that others have published. It measures a Python client as much as the
server: what a server can do, `python -m bench` tells.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench.errors import BenchError, EffectsDiffer
from lab.arguments import count, size
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

NOTIFICATIONS_TIMEOUT_S = 60.0
# kazoo's own is 10 s; a server that is just starting may take longer.
CONNECT_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 60.0

# What starts a request. Waiting for the result is kazoo's: an IAsyncResult, which has no types.
Start = Callable[[], Any]


class Operation(NamedTuple):
    """One request: how it is started, and what its answer has to be (None: anything but an error)."""

    start: Start
    answer: object = None
    told: str = ""  # with --verbose, once it is done


def parser() -> argparse.ArgumentParser:
    """The command line: the options of zk-latencies.py, by its names."""
    made = Parser(prog="python -m bench.zk_latencies", description=__doc__)
    add = made.add_argument
    add(
        "--servers",
        default="localhost:2181",
        help="comma separated list of host:port (default %(default)s), test each in turn",
    )
    add("--cluster", help="comma separated list of host:port, test as a cluster, alternative to --servers")
    add("--config", type=Path, help="zookeeper configuration file to look the cluster up in")
    add("--timeout", type=count, default=5000, help="session timeout in milliseconds (default %(default)s)")
    add(
        "--root_znode",
        type=_root,
        default="/zk-latencies",
        help="root for the test, made and removed by it (default %(default)s)",
    )
    add("--znode_size", type=size, default=25, help="bytes of data of a znode (default %(default)s)")
    add("--znode_count", type=count, default=10000, help="znodes in each section (default %(default)s)")
    add("--watch_multiple", type=count, default=1, help="watches on each znode (default %(default)s)")
    add("--force", action="store_true", help="run although the root exists: its children ARE DELETED")
    add("--synchronous", action="store_true", help="one request at a time, instead of a section at once")
    add("-v", "--verbose", action="store_true", help="tell of each znode made and deleted")
    add("-q", "--quiet", action="store_true", help="do not tell of connecting")
    return made


def _root(text: str) -> str:
    if not text.startswith("/") or text.endswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} isn't the path of a znode below the root")
    return text


def hosts_of(given: argparse.Namespace) -> list[str]:
    """What to connect to, one session each: kazoo's lists of hosts. Raises BenchError for a bad --config."""
    if given.cluster:
        return [given.cluster]
    if given.config is None:
        hosts: list[str] = given.servers.split(",")
        return hosts
    try:
        lines = given.config.read_text().splitlines()
    except OSError as error:
        raise BenchError(f"{given.config}: {error.strerror}") from None
    settings = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    servers = [
        _client_address(value, settings) for name, value in settings.items() if name.startswith("server.")
    ]
    if not servers:
        raise BenchError(f"{given.config} names no server.N")
    return [",".join(servers)]


def _client_address(value: str, settings: Mapping[str, str]) -> str:
    """The address for clients of `host:2888:3888`, or since 3.5 of `host:2888:3888:role;[address:]port`."""
    peers, _, client = value.partition(";")
    port = client.rpartition(":")[2] or settings.get("clientPort")
    if port is None:
        raise BenchError(f"no clientPort for server {value}")
    return f"{peers.partition(':')[0]}:{port}"


def figures(text: str, seconds: float, count: int) -> str:
    """The line of one section, as zk-latencies.py prints it."""
    milliseconds = seconds * 1000
    if int(milliseconds) == 0:
        return f"{text} in {0:6d} ms (included in prior)"
    each, rate = milliseconds / count, count / seconds
    return f"{text} in {int(milliseconds):6d} ms ({each:f} ms/op {rate:f}/sec)"


class Counter:
    """A watcher that counts its events."""

    def __init__(self, expected: int) -> None:
        self._left = expected
        self._lock = threading.Lock()
        self._all = threading.Event()

    def __call__(self, event: object) -> None:
        """Count one event, on kazoo's thread."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._all.set()

    def wait(self) -> None:
        """Wait until as many have come as were expected. Raises EffectsDiffer after a minute."""
        if not self._all.wait(NOTIFICATIONS_TIMEOUT_S):
            raise EffectsDiffer(f"{self._left} notifications did not come")


class Sections:
    """All that is timed, on one session."""

    def __init__(self, client: KazooClient, given: argparse.Namespace) -> None:
        self._client = client
        self._given = given
        self._data = b"x" * given.znode_size
        self._paths = [f"{given.root_znode}/session_{number}" for number in range(given.znode_count)]
        self._watchers = [Counter(given.znode_count) for _ in range(given.watch_multiple)]

    def run(self) -> None:
        """All sections. Raises BenchError where an answer is not what it should be."""
        count = len(self._paths)
        watches = count * len(self._watchers)
        self._section(f"created {count:7d} permanent znodes ", count, self._creates(ephemeral=False))
        self._section(f"set     {count:7d}           znodes ", count, self._sets())
        self._section(f"get     {count:7d}           znodes ", count, self._gets())
        self._section(f"deleted {count:7d} permanent znodes ", count, self._deletes())
        self._section(f"created {count:7d} ephemeral znodes ", count, self._creates(ephemeral=True))
        self._section(f"watched {watches:7d}           znodes ", watches, self._watches())
        self._section(f"deleted {count:7d} ephemeral znodes ", count, self._deletes())
        start = time.perf_counter()
        for watcher in self._watchers:
            watcher.wait()
        seconds = time.perf_counter() - start
        print(figures(f"notif   {watches:7d}           watches", seconds, watches), flush=True)

    def _creates(self, *, ephemeral: bool) -> Iterator[Operation]:
        for path in self._paths:
            start = partial(self._client.create_async, path, self._data, ephemeral=ephemeral)
            yield Operation(start, path, f"Node {path} created")

    def _sets(self) -> Iterator[Operation]:
        return (Operation(partial(self._client.set_async, path, self._data)) for path in self._paths)

    def _gets(self) -> Iterator[Operation]:
        return (Operation(partial(self._client.get_async, path), self._data) for path in self._paths)

    def _deletes(self) -> Iterator[Operation]:
        for path in self._paths:
            yield Operation(partial(self._client.delete_async, path), told=f"Node {path} deleted")

    def _watches(self) -> Iterator[Operation]:
        for watcher in self._watchers:
            for path in self._paths:
                yield Operation(partial(self._client.exists_async, path, watch=watcher))

    def _section(self, text: str, count: int, operations: Iterable[Operation]) -> None:
        """Time the operations, one after another or all at once, and print the line."""
        start = time.perf_counter()
        if self._given.synchronous:
            for operation in operations:
                before = time.perf_counter()
                self._check(operation, operation.start())
                if self._given.verbose and operation.told:
                    print(f"{operation.told} in {(time.perf_counter() - before) * 1000:.0f} ms")
        else:
            pending = [(operation, operation.start()) for operation in operations]
            for operation, result in pending:
                self._check(operation, result)
                if self._given.verbose and operation.told:
                    print(operation.told)
        print(figures(text, time.perf_counter() - start, count), flush=True)

    @staticmethod
    def _check(operation: Operation, result: Any) -> None:
        answer = result.get(timeout=ANSWER_TIMEOUT_S)
        if isinstance(answer, tuple):  # getData's: the data and the Stat
            answer = answer[0]
        if operation.answer is not None and answer != operation.answer:
            raise EffectsDiffer(f"an answer is {answer!r} instead of {operation.answer!r}")


def _connect(hosts: str, number: int, given: argparse.Namespace) -> KazooClient:
    if not given.quiet:
        print(f"Connecting to {hosts}", flush=True)
    client = KazooClient(hosts, timeout=given.timeout / 1000)
    start = time.perf_counter()
    client.start(timeout=CONNECT_TIMEOUT_S)
    if not given.quiet:
        milliseconds = (time.perf_counter() - start) * 1000
        print(f"Connected in {milliseconds:.0f} ms, handle is {number}", flush=True)
    return client


def _prepare(client: KazooClient, given: argparse.Namespace) -> None:
    """Make the root, or empty it. Raises BenchError if it exists and --force is not given."""
    root = given.root_znode
    if client.exists(root):
        if not given.force:
            raise BenchError(f"Node {root} already exists!")
        for name in client.get_children(root):
            client.delete(f"{root}/{name}")
    else:
        text = f"root of zk-latencies, to be deleted after it, created {datetime.now().ctime()}"
        client.create(root, text.encode())


def measure(given: argparse.Namespace) -> None:
    """Run what the options ask for. Raises BenchError and kazoo's errors."""
    servers = hosts_of(given)
    with ExitStack() as stack:
        clients = []
        # All sessions first: it shows that every server is there before the clock starts.
        for number, hosts in enumerate(servers):
            client = _connect(hosts, number, given)
            stack.callback(client.close)
            stack.callback(client.stop)
            clients.append(client)
        _prepare(clients[0], given)
        for hosts, client in zip(servers, clients, strict=True):
            # zk-latencies.py spells it so, and others read its output.
            how = "syncronous" if given.synchronous else "asynchronous"
            print(f"Testing latencies on server {hosts} using {how} calls", flush=True)
            client.sync(given.root_znode)
            Sections(client, given).run()
        clients[0].delete(given.root_znode)
    print("Latency test complete")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 1 with a line that says what was wrong."""
    given = parser().parse_args(arguments)
    try:
        measure(given)
    except (BenchError, KazooException, KazooTimeoutError) as error:
        print(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, "zk_latencies"))
