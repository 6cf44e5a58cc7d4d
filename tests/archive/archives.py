"""An archive of a tree that clients write to, and what clients saw of the tree."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

import pytest

from archive.files.moment import moment, shown
from archive.files.names import Segment, parse
from archive.files.store import store_of
from archive.past.state import state_at
from codec import client as zk
from codec.constants import ErrorCode
from codec.jute import Acl, Reader
from codec.packets import STAT
from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, wait_until
from proxy.support.environment import clock_ms
from zketcd.__main__ import main

Capture = pytest.CaptureFixture[str]
ROOT = "/app"
_ACL = (Acl(31, "world", "anyone"), Acl(1, "digest", "x:y"))

# `zketcd archive`, which says oftener than every ten seconds up to where the archive is complete.
_ARCHIVE = """
import sys
from archive.archiver.archiver import Archiver, Intervals
from zketcd.__main__ import entry
Archiver.__init__.__kwdefaults__["intervals"] = Intervals(complete=1.0)
sys.exit(entry())
"""


#: Data, Stat and ACL, by path.
Nodes = dict[str, tuple[bytes | None, tuple[int, ...], tuple[Acl, ...]]]


class Seen(NamedTuple):
    """The tree below ROOT as a client saw it, and when."""

    zxid: int
    time: str
    nodes: Nodes


def seen_by(client: Client) -> Seen:
    """Walk the tree; no client may write meanwhile."""
    client.sync()
    at = shown(clock_ms())
    nodes = nodes_of(client)
    zxid = client.zxid
    time.sleep(0.003)  # later writes have another clock
    return Seen(zxid, at, nodes)


def nodes_of(client: Client) -> Nodes:
    """The tree below ROOT as a client reads it."""
    nodes: Nodes = {}
    paths = [ROOT]
    for path in paths:
        data = client.read(path)
        nodes[path] = (data.data, tuple(data.stat), client.call(zk.get_acl(path)).acl)
        paths += [f"{path}/{name}" for name in client.children(path)[0]]
    return nodes


def until_archived(url: Path, zxid: int) -> None:
    """Wait until a proxy has archived everything up to a zxid."""

    def newest() -> int:
        found = [each[1] for each in map(parse, store_of(str(url)).list()) if each]
        return max((each.end.zxid for each in found if isinstance(each, Segment)), default=0)

    wait_until(lambda: newest() >= zxid, f"{zxid:#x} is archived", 60)


def state(url: str, at: str) -> Nodes:
    """The tree below ROOT at a moment, of the archive."""
    nodes = state_at(store_of(url), moment(at, 0)).tree.nodes
    return {
        path: (node.data, tuple(STAT.unpack(node.stat())), tuple(node.acl))
        for path, node in nodes.items()
        if path == ROOT or path.startswith(f"{ROOT}/")
    }


class Writer:
    """A client that writes at random, and remembers what happened to each node."""

    def __init__(self, ports: list[int], seed: int) -> None:
        self._random = Random(seed)
        self._ports = ports
        self.clients = [Client(port) for port in ports]
        self.history: dict[str, list[tuple[int, str]]] = {}  # zxid and change, by path
        self._ephemerals: dict[int, set[str]] = {}
        self.paths = [ROOT]
        self.clients[0].create(ROOT)
        self._note(ROOT, "created", self.clients[0].zxid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the sessions open."""
        for client in self.clients:
            client.drop()

    def see(self) -> Seen:
        """What a client sees now."""
        return seen_by(self._random.choice(self.clients))

    def write(self, count: int) -> None:
        """So many requests."""
        for _ in range(count):
            client = self._random.choice(self.clients)
            kinds = (self._create, self._create, self._set, self._delete, self._acl, self._multi)
            self._random.choice(kinds)(client)
            if self._random.random() < 0.02:
                self._end(client)

    def _note(self, path: str, change: str, zxid: int) -> None:
        self.history.setdefault(path, []).append((zxid, change))

    def _path(self) -> str:
        return self._random.choice(self.paths)

    def _data(self) -> bytes:
        return self._random.randbytes(self._random.choice((0, 10, 300, 20_000)))

    def _create(self, client: Client) -> None:
        mode = self._random.choice((0, 0, EPHEMERAL, SEQUENTIAL))
        above = self._path()
        reply = client.reply_to(client.send(zk.create(f"{above}/n", self._data(), mode))[0])
        if reply.err:
            assert reply.err in (ErrorCode.NODE_EXISTS, ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
            return
        path = Reader(reply.body).text()
        self.paths.append(path)
        if mode == EPHEMERAL:
            self._ephemerals.setdefault(id(client), set()).add(path)
        self._note(path, "created", reply.zxid)

    def _set(self, client: Client) -> None:
        path = self._path()
        client.write(path, self._data())
        self._note(path, "set", client.zxid)

    def _acl(self, client: Client) -> None:
        path = self._path()
        client.call(zk.set_acl(path, _ACL[: self._random.choice((1, 2))]))
        self._note(path, "setACL", client.zxid)

    def _delete(self, client: Client) -> None:
        path = self._path()
        if path != ROOT and client.refusal(zk.delete(path)) == 0:
            self._forget(path)
            self._note(path, "deleted", client.zxid)

    def _forget(self, path: str) -> None:
        self.paths.remove(path)
        for owned in self._ephemerals.values():
            owned.discard(path)

    def _multi(self, client: Client) -> None:
        path, other = self._path(), self._path()
        version = self._random.choice((-1, -1, 10_000))
        parts = [zk.set_data(path, b"m"), zk.set_data(other, b"m", version)]
        failed = any(part.error for part in client.transact(parts))
        assert failed == (version > 0)
        if not failed:
            self._note(path, "set", client.zxid)
            self._note(other, "set", client.zxid)

    def _end(self, client: Client) -> None:
        """The session ends, and its ephemerals with it. Another one begins."""
        client.close()
        for path in sorted(self._ephemerals.pop(id(client), ())):
            self._forget(path)
            self._note(path, "deleted", client.zxid)
        client.drop()
        at = self.clients.index(client)
        self.clients[at] = Client(self._ports[at])


class Archive:
    """The archive of one tree, and a process that writes it."""

    def __init__(
        self, etcd: EtcdServer, prefix: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.url = str(folder / "archive")
        self.metrics = folder / "metrics"
        self._etcd = ["--etcd", etcd.endpoint, "--prefix", prefix]
        self._capsys = capsys
        self.clients: list[Client] = []  # kept alive during waits
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> None:
        """Another archiver."""
        command = [sys.executable, "-c", _ARCHIVE, "archive", self.url, *self._etcd]
        command += ["--metrics", str(self.metrics), *arguments]
        self._processes.append(subprocess.Popen(command))

    def kill(self) -> None:
        """Kill all archivers."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def snapshot(self) -> None:
        """A proxy's snapshot, and truncation of what the snapshot before it has."""
        assert main(["snapshot", *self._etcd]) == 0
        self._capsys.readouterr()

    def list(self) -> Any:
        """What `archive list` shows."""
        assert main(["archive", "list", "--json", self.url]) == 0
        return json.loads(self._capsys.readouterr().out)

    def has_failed(self) -> bool:
        """Whether its metrics count an error. It writes them only after its first look at the store."""
        return self.metrics.exists() and "errors_total 0" not in self.metrics.read_text()

    def until(self, zxid: int) -> None:
        """Wait until everything up to a zxid is archived."""
        self._until(lambda run: int(run["zxid"][1], 16) >= zxid, f"zxid {zxid:#x}")

    def until_complete(self, seen: Seen) -> None:
        """Wait until the archive is known to be complete up to that time."""
        self.until(seen.zxid)
        self._until(lambda run: run["to"] >= seen.time, seen.time)

    def _until(self, reached: Callable[[dict[str, Any]], bool], what: str) -> None:
        def probe() -> bool:
            for client in self.clients:
                client.ping()
            runs = self.list()["runs"] if Path(self.url).exists() else []
            return bool(runs) and reached(runs[-1])

        wait_until(probe, f"{what} is archived", timeout=60, interval=0.2)

    def snapshots(self) -> int:
        """How many there are."""
        return sum(run["snapshots"] for run in self.list()["runs"])

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code and the output of a command."""
        status = main(words)
        out, err = self._capsys.readouterr()
        return status, out if not status else out + err
