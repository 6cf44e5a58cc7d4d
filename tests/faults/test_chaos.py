"""Random writes over three proxies while links, etcd and proxies fail: afterwards all of them agree.

Two invariants. Every proxy, and one that starts afterwards, shows the same tree, down to each field of each
Stat. And a client that keeps a copy of the tree by one-shot watches ends with a true one: no event got lost.
ZKETCD_CHAOS_SEED (a first seed), ZKETCD_CHAOS_RUNS and ZKETCD_CHAOS_FAULTS reproduce or widen a run; what the
servers make of a seed differs from run to run all the same.
"""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import pytest

from codec.constants import OpCode
from codec.jute import Acl
from lab.client import blocking as zk
from lab.client.blocking import Client, Disconnected, Refused, Request, Stat
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import compact, end_lease_of, keys_of
from tests.faults.conftest import Start
from tests.faults.link import Link

_DIRECTORIES = ("/a", "/b", "/a/c")
_NAMES = ("x", "y", "z", "c")
_PATHS = tuple(sorted({*_DIRECTORIES, *(f"{above}/{name}" for above in _DIRECTORIES for name in _NAMES)}))
_ACLS = (
    [Acl(31, "world", "anyone")],
    [Acl(31, "world", "anyone"), Acl(1, "ip", "10.0.0.1")],
)
_WRITERS = 6
_SESSION_MS = 2_000
_SNAPSHOT_REQUESTS = 3_000  # so the log is truncated all the time
_SEED = int(os.environ.get("ZKETCD_CHAOS_SEED", "1"))
_RUNS = int(os.environ.get("ZKETCD_CHAOS_RUNS", "1"))
_FAULTS = int(os.environ.get("ZKETCD_CHAOS_FAULTS", "12"))


class Node(NamedTuple):
    """All that a client can read of a node."""

    data: bytes | None
    stat: Stat
    children: frozenset[str]
    acl: tuple[Acl, ...]


def tree_of(client: Client) -> dict[str, Node]:
    """Read the whole tree."""
    nodes: dict[str, Node] = {}
    left = ["/"]
    while left:
        path = left.pop()
        names, stat = client.children(path)
        data, found = client.call(zk.get(path))
        assert found == stat
        acl = client.call(zk.get_acl(path))
        nodes[path] = Node(data, stat, frozenset(names), acl)
        left += [f"{path.rstrip('/')}/{name}" for name in names]
    return nodes


def random_part(chance: random.Random) -> Request[Any]:
    """A request that may be part of a multi; many fail."""
    path = chance.choice(_PATHS)
    version = chance.choice((-1, -1, -1, 0, 1))
    kind = chance.randrange(10)
    if kind < 4:
        return zk.create(path, b"%d" % chance.randrange(100), chance.choice((0, 0, 0, 1, 2, 3)))
    if kind < 7:
        return zk.delete(path, version)
    if kind < 9:
        return zk.set_data(path, b"%d" % chance.randrange(100), version)
    return zk.check(path, version)


def random_request(chance: random.Random) -> Request[Any]:
    """A write of any kind."""
    kind = chance.randrange(10)
    if kind < 3:
        return zk.multi([random_part(chance) for _ in range(chance.randrange(6))])
    if kind < 4:
        return zk.set_acl(chance.choice(_PATHS), chance.choice(_ACLS))
    while (part := random_part(chance)).opcode == OpCode.CHECK:
        pass
    return part


def write(ports: list[int], chance: random.Random, over: threading.Event) -> None:
    """Write at random over random proxies; sessions end in all ways."""
    while not over.is_set():
        try:
            with Client(chance.choice(ports), _SESSION_MS) as client:
                while not over.is_set():
                    fate = chance.randrange(60)
                    if fate == 0:
                        assert client.refusal(zk.CLOSE) == 0
                        break
                    if fate == 1:
                        break  # without a word: it runs out
                    if fate == 2:
                        client.reconnect(chance.choice(ports))
                    for xid in client.send(*(random_request(chance) for _ in range(chance.randrange(1, 8)))):
                        client.reply_to(xid)
        except (Disconnected, OSError):
            over.wait(0.05)  # its proxy is not there now


class Copy:
    """A client's copy of what it watches, kept by one-shot watches alone, over one proxy or wandering."""

    def __init__(self, ports: list[int], chance: random.Random) -> None:
        self._ports = ports
        self._chance = chance
        self.client = Client(ports[0])
        self.stats: dict[str, Stat | None] = {}
        self.names: dict[str, frozenset[str] | None] = {}
        self._handled = 0
        for path in _PATHS:
            self._read_stat(path)
        for path in ("/", *_DIRECTORIES):
            self._read_names(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.drop()

    def follow(self, over: threading.Event) -> None:
        """Keep the copy until told."""
        while not over.is_set():
            try:
                self.client.ping()
                self.catch_up()
                over.wait(0.005)
                if len(self._ports) > 1 and self._chance.randrange(40) == 0:
                    self._move()
            except (Disconnected, OSError):
                if len(self._ports) == 1:
                    raise
                wait_until(self._moved, "a proxy that takes the session")

    def catch_up(self) -> None:
        """Read again what events have told of."""
        while self._handled < len(self.client.events):
            event = self.client.events[self._handled]
            if event.type != zk.CHILDREN:
                self._read_stat(event.path)
            if event.path in self.names and event.type in {zk.CHILDREN, zk.CREATED, zk.DELETED}:
                self._read_names(event.path)
            self._handled += 1

    def _moved(self) -> bool:
        try:
            self._move()
        except (Disconnected, OSError):
            return False
        return True

    def _move(self) -> None:
        """Go on at some proxy, as clients do: it sets the watches, or tells what has changed meanwhile."""
        seen = self.client.zxid
        self.client.reconnect(self._chance.choice(self._ports))
        data = [path for path, stat in self.stats.items() if stat]
        absent = [path for path, stat in self.stats.items() if not stat]
        children = [path for path, names in self.names.items() if names is not None]
        self.client.call(zk.set_watches(seen, data, absent, children))

    def _read_stat(self, path: str) -> None:
        self.stats[path] = self.client.stat(path, watch=True)

    def _read_names(self, path: str) -> None:
        try:
            self.names[path] = frozenset(self.client.children(path, watch=True)[0])
        except Refused:
            self.names[path] = None  # when it comes again, its stat's watch tells

    def verify(self, tree: dict[str, Node]) -> None:
        """Compare the copy with the truth."""
        self.client.sync()
        self.catch_up()
        for path, stat in self.stats.items():
            node = tree.get(path)
            known = stat and (stat.czxid, stat.mzxid, stat.version)
            assert known == (node and (node.stat.czxid, node.stat.mzxid, node.stat.version)), path
        for path, names in self.names.items():
            assert names == (tree[path].children if path in tree else None), path


def fail_at_random(
    chance: random.Random, etcd: EtcdServer, links: list[Link], sleeper: ZketcdServer, mortal: ZketcdServer
) -> None:
    """One fault, and its end."""

    def pause(server: EtcdServer | ZketcdServer) -> None:
        server.pause()
        time.sleep(chance.uniform(0.1, 0.8))
        server.resume()

    def block(link: Link) -> None:
        link.block()
        time.sleep(chance.uniform(0.1, 0.8))
        link.unblock()

    def block_and_compact() -> None:
        link = chance.choice(links)
        link.block()
        time.sleep(chance.uniform(0.2, 0.8))
        compact(etcd)
        link.unblock()

    def kill(server: EtcdServer | ZketcdServer) -> None:
        server.kill()
        server.start()

    def end_a_lease() -> None:
        keys = keys_of(etcd, "/zketcd/live/proxy/")
        if keys:
            with contextlib.suppress(KeyError, RuntimeError):  # it has ended by itself
                end_lease_of(etcd, chance.choice(keys))

    faults: list[Callable[[], None]] = [
        lambda: chance.choice(links).cut(),
        lambda: chance.choice(links).cut(),
        lambda: block(chance.choice(links)),
        block_and_compact,
        lambda: pause(etcd),
        lambda: pause(sleeper),
        end_a_lease,
        end_a_lease,
        lambda: kill(mortal),
        lambda: kill(etcd),
    ]
    chance.choice(faults)()


@pytest.mark.parametrize("seed", range(_SEED, _SEED + _RUNS))
def test_after_all_faults_everybody_agrees(start: Start, own_etcd_server: EtcdServer, seed: int) -> None:
    chance = random.Random(seed)
    over = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[..., None], *arguments: object) -> Callable[[], None]:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:  # noqa: BLE001 - the main thread tells it
                failures.append(error)

        return run

    with ExitStack() as stack:
        links = [stack.enter_context(Link(own_etcd_server.port)) for _ in range(2)]
        options = {"snapshot_log_requests": _SNAPSHOT_REQUESTS}
        proxies = [*(start(link.endpoint, **options) for link in links), start(own_etcd_server, **options)]
        ports = [proxy.port for proxy in proxies]
        copies = [
            stack.enter_context(Copy(known, random.Random(chance.random())))
            for known in (ports[:1], ports[1:2], ports, ports)
        ]
        work = [guarded(copy.follow, over) for copy in copies]
        work += [guarded(write, ports, random.Random(chance.random()), over) for _ in range(_WRITERS)]
        threads = [threading.Thread(target=run) for run in work]
        try:
            for thread in threads:
                thread.start()
            for _ in range(_FAULTS):
                fail_at_random(chance, own_etcd_server, links, proxies[0], proxies[2])
                time.sleep(chance.uniform(0.1, 0.5))
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failures, (seed, failures)
        readers = [stack.enter_context(Client(port)) for port in ports]

        def orphans_gone() -> bool:
            readers[0].sync()
            for other in (*readers, *(copy.client for copy in copies)):
                other.ping()
            try:
                return not any(node.stat.ephemeral_owner for node in tree_of(readers[0]).values())
            except Refused:  # one has just gone
                return False

        wait_until(orphans_gone, "the sessions that were left run out", interval=0.2)
        tree = tree_of(readers[0])
        assert len(tree) > 4, f"seed {seed}: the writers wrote"
        for reader in readers[1:]:
            reader.sync()
            assert tree_of(reader) == tree, f"seed {seed}"
        for copy in copies:
            copy.verify(tree)
        with Client(start(own_etcd_server).port) as late:
            assert tree_of(late) == tree, f"seed {seed}: a proxy that starts now"
