"""A ZooKeeper whose clients work by chance: a naive one, and the files of its data directory.

The naive ZooKeeper (`proof.naive`) decides what becomes of each request. Here that becomes a transaction, as
PrepRequestProcessor makes one, and bytes in a log. The log grows in pieces that end anywhere. A
new one begins with each snapshot and each epoch.
"""

from pathlib import Path
from typing import Any, NamedTuple

from codec.constants import ErrorCode
from codec.jute import Acl
from proof import naive
from proof.naive import requests as asks
from proof.simulation.following import zk_format as zk
from proof.simulation.following.zk_format import Node
from proof.simulation.naive_judge import naive_tree
from proof.simulation.world import EPOCH, Host, World

TOP = "/source"
_OPEN = (Acl(31, "world", "anyone"),)
_ACLS = (_OPEN, _OPEN, (Acl(1, "world", "anyone"), Acl(31, "digest", "ann:x")), (Acl(31, "digest", "bob:x"),))
_IDENTITIES = (("ip", "127.0.0.1"),), (("ip", "127.0.0.1"), ("digest", "ann:x"))
_MOST_NODES = 60
_PREALLOCATED = 1 << 14
_TIMEOUTS = (4_000, 12_000, 30_000)


class Moment(NamedTuple):
    """The tree after a transaction."""

    nodes: dict[str, Node]
    sessions: dict[int, int]  # timeouts in milliseconds


class Source:
    """The ZooKeeper."""

    def __init__(self, world: World, folder: Path) -> None:
        self.host = Host(world, "zookeeper")
        self.model = naive_tree()
        #: By zxid.
        self.moments: dict[int, Moment] = {}
        self.transactions = 0
        self._last = 0
        self._world = world
        self._random = world.random("source")
        self._rate = self._random.choice((1.0, 4.0, 12.0))  # transactions a second
        self._names_paths = self._random.random() < 0.7  # of ephemerals, in the end of a session (3.6)
        self._files = _Files(folder / "version-2", padded=self._random.random() < 0.5)
        self._timeouts: dict[int, int] = {}
        self._ttl = self._random.choice((500, 3_600_000))  # of all TTL nodes, in milliseconds
        self._stopped = False
        self._known: dict[str, tuple[naive.Znode, Node]] = {}
        self._epoch()

    # -- its life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve clients, with a tree that has some nodes."""
        self._open_session()
        self._ask(next(iter(self._timeouts)), asks.Create(TOP))
        for _ in range(self._random.choice((0, 20, 200))):
            self._step()
        self.write_snapshot()
        self._tick()

    def stop(self) -> None:
        """The operator stops it: the files are whole, and nothing follows."""
        self._stopped = True
        self._files.flush(1.0)

    def cut_over(self, zxid: int, *, keeps: bool) -> None:
        """What the tree must be at the cut-over, which has a zxid of its own: sessions end if not kept."""
        self.model.zxid = zxid
        for session in [] if keeps else sorted(self._timeouts):
            del self._timeouts[session]
            self.model.zxid = zxid - 1
            self.model.expire(session, "")
        self._last = zxid
        self.moments[zxid] = self.moment()

    @property
    def zxid(self) -> int:
        """The last transaction."""
        return self._last

    def _tick(self) -> None:
        if self._stopped:
            return
        rng = self._random
        seconds = rng.choice((0.05, 0.3, 2.0))
        self.host.call_later(seconds, self._tick)
        for _ in range(min(100, int(rng.expovariate(1 / (self._rate * seconds)) + rng.random()))):
            self._step()
        self._files.flush(rng.choice((1.0, rng.random())))

    def _step(self) -> None:
        """A transaction, or what a server does besides."""
        rng = self._random
        chance = rng.random()
        sessions = list(self._timeouts)
        if chance < 0.005:
            self.write_snapshot()
        elif chance < 0.008:
            self._epoch()
        elif not sessions or (chance < 0.05 and len(sessions) < 6):
            self._open_session()
        elif chance < 0.09:
            self._ask(rng.choice(sessions), naive.CloseSession())
        elif chance < 0.13 and (mortal := [path for path, node in self.model.nodes.items() if node.mortal]):
            self._due(rng.choice(mortal))
        else:
            self.model.identities = rng.choice(_IDENTITIES)
            multi = chance < 0.3
            parts: list[Any] = [self._change(multi=multi) for _ in range(rng.randint(0, 4) if multi else 1)]
            self._ask(rng.choice(sessions), naive.Multi(tuple(parts)) if multi else parts[0])

    def _change(self, *, multi: bool = False) -> naive.Single:
        rng = self._random
        paths = [path for path in self.model.nodes if path.startswith(TOP)]
        path = rng.choice(paths)
        data = rng.choice((None, b"", rng.randbytes(rng.choice((3, 40, 400)))))
        version = rng.choice((-1, -1, self.model.nodes[path].version, 7))
        chance = rng.random() + (0.4 if len(paths) > _MOST_NODES else 0.0)
        if chance < 0.45:
            name, acl = f"{path}/{rng.choice('abcdefgh')}", rng.choice(_ACLS)
            if rng.random() < 0.2:
                ttl = rng.choice((None, 500, 3_600_000))
                return asks.CreateMortal(
                    name, ttl, data, acl, sequential=ttl is not None and rng.random() < 0.5
                )
            return asks.Create(name, data, acl, rng.choice((0, 0, 0, 1, 2, 3)))
        if chance < 0.7:
            return asks.SetData(path, data, version)
        if chance < 0.76:
            return asks.Check(path, version) if multi else asks.SetAcl(path, rng.choice(_ACLS))
        return asks.Delete(path, version) if path != TOP else asks.Delete(f"{TOP}/nobody")

    # -- transactions ----------------------------------------------------------------------------------------

    def _now(self) -> int:
        return int((EPOCH + self._world.now) * 1000)

    def _open_session(self) -> None:
        session = 0x100000000 + self._world.count()
        self.model.open("", session)
        self._timeouts[session] = self._random.choice(_TIMEOUTS)
        self._log(session, zk.CREATE_SESSION, zk.number(self._timeouts[session]))

    def _due(self, path: str) -> None:
        """ContainerManager deletes a node."""
        node = self.model.nodes[path]
        try:
            self.model.due(path, node.czxid, node.version, node.mtime, never_used=True)
        except naive.Refused:
            return
        self._log(0, zk.DELETE_CONTAINER, zk.text(path))

    def _ask(self, session: int, asked: naive.Asked) -> None:
        before = dict(self.model.nodes)
        try:
            answer = self.model.ask("", session, asked, self._now())
        except naive.Refused as refused:
            self._log(session, zk.ERROR, zk.number(refused.code))
            return
        if isinstance(asked, naive.CloseSession):
            del self._timeouts[session]
            paths = sorted(path for path, node in before.items() if node.owner == session)
            body = zk.number(len(paths)) + b"".join(map(zk.text, paths)) if self._names_paths else b""
            self._log(session, zk.CLOSE_SESSION, body)
        elif isinstance(asked, naive.Multi):
            assert isinstance(answer, naive.MultiAnswer)
            self._log(session, zk.MULTI, zk.multi(self._parts(asked, answer, before)))
        else:
            assert isinstance(answer, naive.Answer)
            self._log(session, *_Records(before, self._ttl).record(asked, answer))

    def _parts(
        self, asked: naive.Multi, answer: naive.MultiAnswer, before: dict[str, naive.Znode]
    ) -> list[tuple[int, bytes]]:
        """A failed multi has what comes before the failed part as if it had been done."""
        records = _Records(before, self._ttl)
        if answer.failed_at is None:
            return [records.record(*pair) for pair in zip(asked.parts, answer.answers, strict=True)]
        parts = [records.record(part, naive.Answer()) for part in asked.parts[: answer.failed_at]]
        codes = [answer.code, *[ErrorCode.RUNTIME_INCONSISTENCY] * (len(asked.parts) - 1)]
        return [*parts, *((zk.ERROR, zk.number(code)) for code in codes[: len(asked.parts) - len(parts)])]

    def _log(self, session: int, kind: int, body: bytes) -> None:
        """A transaction has been made; the model has it."""
        cxid = self._world.count() % 1000
        zxid = self.model.zxid
        self._files.append(zxid, zk.entry(session, cxid, zxid, self._now(), kind, body))
        self.transactions += 1
        self._last = self.model.zxid
        self.moments[self._last] = self.moment()

    def moment(self) -> Moment:
        """The tree as it is."""
        known, nodes = self._known, self.model.nodes
        self._known = {path: self._kept(known.get(path), node) for path, node in nodes.items()}
        return Moment({path: kept for path, (_, kept) in self._known.items()}, dict(self._timeouts))

    def _kept(self, known: tuple[naive.Znode, Node] | None, node: naive.Znode) -> tuple[naive.Znode, Node]:
        """A node as the files have it. The naive ZooKeeper changes copies: the same object is unchanged."""
        if known is not None and known[0] is node:
            return known
        owner = node.owner
        if node.mortal:
            owner = zk.CONTAINER_OWNER if node.container else zk.ttl_owner(self._ttl)
        numbers = (node.czxid, node.mzxid, node.pzxid, node.ctime, node.mtime)
        kept = Node(node.data, node.acl, owner, *numbers, node.version, node.created, node.aversion)
        return node, kept

    # -- files -----------------------------------------------------------------------------------------------

    def _epoch(self) -> None:
        """A new leader: the next transaction is the first one of its epoch, in a log of its own."""
        self._files.roll()
        self.model.zxid = ((self.model.zxid >> 32) + 1) << 32

    def write_snapshot(self) -> None:
        """A snapshot of now; the next transaction begins a log."""
        self._files.roll()
        self._files.write_snapshot(self._last, self.moments[self._last])


class _Files:
    """A data directory."""

    def __init__(self, folder: Path, *, padded: bool) -> None:
        """`padded`: zeros follow in a log, in advance."""
        folder.mkdir(parents=True)
        self._folder = folder
        self._padded = padded
        self._padded_to = 0
        self._file: Path | None = None
        self._size = 0
        self._unwritten = b""

    def append(self, zxid: int, entry: bytes) -> None:
        """Add an entry to the log; it is there after `flush`."""
        if self._file is None:
            self._file = self._folder / f"log.{zxid:x}"
            self._size = self._padded_to = 0
            self._unwritten = zk.LOG_HEADER
        self._unwritten += entry

    def flush(self, share: float) -> None:
        """Write such a share of what was not yet written; it may end within an entry."""
        size = int(len(self._unwritten) * share)
        if self._file is None or not size:
            return
        if not self._size:
            size = max(size, len(zk.LOG_HEADER))  # FileTxnLog writes it at once
        written, self._unwritten = self._unwritten[:size], self._unwritten[size:]
        if self._padded and self._size + size > self._padded_to:
            self._padded_to = self._size + size + _PREALLOCATED
            with self._file.open("ab") as file:
                file.truncate(self._padded_to)
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.seek(self._size)
            file.write(written)
        self._size += size

    def roll(self) -> None:
        """End the log."""
        self.flush(1.0)
        self._file = None

    def write_snapshot(self, zxid: int, moment: Moment) -> None:
        """Write a snapshot of a tree."""
        (self._folder / f"snapshot.{zxid:x}").write_bytes(zk.snapshot(*moment))


class _Records:
    """The records of the parts of one request, which count on from each other."""

    def __init__(self, before: dict[str, naive.Znode], ttl: int) -> None:
        self._created = {path: node.created for path, node in before.items()}
        self._versions = {path: node.version for path, node in before.items()}
        self._aversions = {path: node.aversion for path, node in before.items()}
        self._ttl = ttl

    def record(self, asked: naive.Single, answer: naive.Answer) -> tuple[int, bytes]:
        """Type and record of one part."""
        path = answer.path or asked.path
        if isinstance(asked, asks.Create | asks.CreateMortal):
            return self._create(path, asked)
        if isinstance(asked, asks.SetData):
            self._versions[path] = self._versions.get(path, -1) + 1
            return zk.SET_DATA, zk.text(path) + zk.buffer(asked.data) + zk.number(self._versions[path])
        if isinstance(asked, asks.SetAcl):
            self._aversions[path] += 1
            return zk.SET_ACL, zk.text(path) + zk.acls(asked.acl) + zk.number(self._aversions[path])
        if isinstance(asked, asks.Check):
            return zk.CHECK, zk.text(path) + zk.number(asked.version)
        return zk.DELETE, zk.text(path)

    def _create(self, path: str, asked: asks.Create | asks.CreateMortal) -> tuple[int, bytes]:
        above = zk.parent(path)
        self._created[above] = counter = self._created.get(above, 0) + 1
        self._created[path] = self._versions[path] = 0
        head = zk.text(path) + zk.buffer(asked.data) + zk.acls(asked.acl)
        if isinstance(asked, asks.Create):
            return zk.CREATE2, head + bytes((asked.flags & 1,)) + zk.number(counter)
        if asked.ttl is None:
            return zk.CREATE_CONTAINER, head + zk.number(counter)
        return zk.CREATE_TTL, head + zk.number(counter) + self._ttl.to_bytes(8, "big")
