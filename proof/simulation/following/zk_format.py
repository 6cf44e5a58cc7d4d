"""ZooKeeper's files as bytes: logs and snapshots written, and a whole data directory read.

Written from zookeeper.jute, FileTxnLog, FileSnap and DataTree. It shares no code with `pipeline.formats`, nor
with `codec`, so that the two do not agree on a mistake.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Acls = tuple[tuple[int, str, str], ...]
OPEN: Acls = ((31, "world", "anyone"),)
CREATE, DELETE, SET_DATA, SET_ACL, CHECK, MULTI, CREATE2 = 1, 2, 5, 7, 13, 14, 15
CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 19, 20, 21
CREATE_SESSION, CLOSE_SESSION, ERROR = -10, -11, -1
CONTAINER_OWNER = -(1 << 63)
#: The end of the path of a node that says how much of a quota is used.
COUNTED = "/zookeeper_stats"
LOG_HEADER = struct.pack(">iiq", 0x5A4B4C47, 2, 0)

_TXN_HEADER = struct.Struct(">qiqqi")
_STAT = struct.Struct(">qqqqqiiiqq")
_SNAPSHOT = struct.Struct(">iiq")
_SNAPSHOT_MAGIC = 0x5A4B534E


class Node(NamedTuple):
    """A node as ZooKeeper keeps it; the fields have the order of zketcd's."""

    data: bytes | None
    acl: Acls
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    created: int  # StatPersisted's cversion
    aversion: int


Nodes = Mapping[str, Node]


class Tree(NamedTuple):
    """What the files hold."""

    zxid: int
    nodes: dict[str, Node]
    sessions: dict[int, int]  # timeouts in milliseconds


class Broken(Exception):
    """The files do not hold a whole tree."""


def ttl_owner(ttl: int) -> int:
    """The ephemeralOwner of a TTL node."""
    return ttl - (1 << 56)


# -- writing -------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    """A ustring."""
    return buffer(value.encode())


def buffer(value: bytes | None) -> bytes:
    """A buffer; None is null."""
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def acls(acl: Acls) -> bytes:
    """A vector of ACL."""
    parts = [struct.pack(">i", len(acl))]
    parts += (struct.pack(">i", perms) + text(scheme) + text(name) for perms, scheme, name in acl)
    return b"".join(parts)


def number(value: int) -> bytes:
    """An int."""
    return struct.pack(">i", value)


def multi(parts: Sequence[tuple[int, bytes]]) -> bytes:
    """A MultiTxn."""
    return number(len(parts)) + b"".join(number(kind) + buffer(body) for kind, body in parts)


def entry(session: int, cxid: int, zxid: int, time: int, kind: int, body: bytes) -> bytes:
    """One transaction in a log."""
    whole = _TXN_HEADER.pack(session, cxid, zxid, time, kind) + body
    return struct.pack(">qi", zlib.adler32(whole), len(whole)) + whole + b"B"


def snapshot(nodes: Nodes, sessions: Mapping[int, int]) -> bytes:
    """A snapshot file."""
    numbers = {OPEN: -1}
    for node in nodes.values():
        numbers.setdefault(node.acl, len(numbers))
    parts = [_SNAPSHOT.pack(_SNAPSHOT_MAGIC, 2, -1), number(len(sessions))]
    parts += (struct.pack(">qi", *session) for session in sorted(sessions.items()))
    parts.append(number(len(numbers) - 1))
    parts += (struct.pack(">q", at) + acls(acl) for acl, at in numbers.items() if acl != OPEN)
    for path, node in sorted(nodes.items()):
        stat = (node.czxid, node.mzxid, node.ctime, node.mtime, node.version, node.created, node.aversion)
        parts.append(text("" if path == "/" else path) + buffer(node.data))
        parts.append(_STAT.pack(numbers[node.acl], *stat, node.owner, node.pzxid))
    parts.append(text("/"))
    whole = b"".join(parts)
    return whole + struct.pack(">q", zlib.adler32(whole)) + text("/")


# -- reading -------------------------------------------------------------------------------------------------


class _Bytes:
    """Reads records."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def buffer(self) -> bytes | None:
        length = self.take(">i")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at]

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def acls(self) -> Acls:
        return tuple((self.take(">i"), self.text(), self.text()) for _ in range(self.take(">i")))


def read(folder: Path) -> Tree | None:
    """The tree of a data directory: the oldest snapshot, and all transactions after it.

    Each other snapshot must be what the transactions lead to, or continue where they end: some changes of a
    tree are no transaction. None: there is no snapshot yet. Raises Broken.
    """
    snapshots = _by_zxid(folder, "snapshot")
    if not snapshots:
        return None
    tree = _from(snapshots, min(snapshots))
    for _, file in sorted(_by_zxid(folder, "log").items()):
        for body in _entries(file.read_bytes()):
            zxid = _TXN_HEADER.unpack_from(body)[2]
            if tree.zxid < zxid - 1 and zxid - 1 in snapshots:
                tree = _from(snapshots, zxid - 1)
            if tree.transaction(body) and zxid in snapshots:
                _compare(tree, *_snapshot(snapshots[zxid].read_bytes()))
    if max(snapshots) > tree.zxid:
        tree = _from(snapshots, max(snapshots))
    return Tree(tree.zxid, tree.nodes, tree.sessions)


def _from(snapshots: Mapping[int, Path], zxid: int) -> "_Replayed":
    return _Replayed(zxid, *_snapshot(snapshots[zxid].read_bytes()))


def _by_zxid(folder: Path, kind: str) -> dict[int, Path]:
    """The files of a kind; not those that are being written."""
    return {int(file.suffix[1:], 16): file for file in folder.glob(f"{kind}.*") if file.suffix != ".part"}


def _compare(tree: "_Replayed", nodes: dict[str, Node], sessions: dict[int, int]) -> None:
    """A snapshot must be the tree. What a quota has counted is in no transaction: it is taken over."""
    for path, node in nodes.items():
        if path.endswith(COUNTED) and path in tree.nodes:
            tree.nodes[path] = tree.nodes[path]._replace(data=node.data)
    for difference in differences(f"the snapshot at {tree.zxid:#x}", nodes, tree.nodes):
        raise Broken(difference)
    if sessions != tree.sessions:
        raise Broken(f"the snapshot at {tree.zxid:#x} has the sessions {sessions}, and not {tree.sessions}")


def _snapshot(data: bytes) -> tuple[dict[str, Node], dict[int, int]]:
    raw = _Bytes(data)
    if (raw.take(">i"), raw.take(">i"), raw.take(">q")) != (_SNAPSHOT_MAGIC, 2, -1):
        raise Broken("a snapshot has another header")
    sessions = {raw.take(">q"): raw.take(">i") for _ in range(raw.take(">i"))}
    known = {-1: OPEN}
    for _ in range(raw.take(">i")):
        at = raw.take(">q")
        known[at] = raw.acls()
    nodes: dict[str, Node] = {}
    while (path := raw.text()) != "/":
        content = raw.buffer()
        acl, czxid, mzxid, ctime, mtime, *versions, owner, pzxid = _STAT.unpack_from(data, raw.at)
        raw.at += _STAT.size
        nodes[path or "/"] = Node(content, known[acl], owner, czxid, mzxid, pzxid, ctime, mtime, *versions)
    if raw.take(">q") != zlib.adler32(data[: raw.at - 8]):
        raise Broken("a snapshot has another checksum than its seal says")
    return nodes, sessions


def _entries(data: bytes) -> Iterator[bytes]:
    """The bodies of a log's entries, up to where it ends or is torn."""
    if len(data) < len(LOG_HEADER):
        return
    at = len(LOG_HEADER)
    while at + 12 < len(data):
        checksum, length = struct.unpack_from(">qi", data, at)
        body = data[at + 12 : at + 12 + length]
        if length <= 0 or len(body) < length or zlib.adler32(body) != checksum:
            return
        yield body
        at += 12 + length + 1


class _Replayed:
    """DataTree.processTxn, in the plainest way."""

    def __init__(self, zxid: int, nodes: dict[str, Node], sessions: dict[int, int]) -> None:
        self.zxid = zxid
        self.nodes = nodes
        self.sessions = sessions
        self._begin = zxid

    def transaction(self, body: bytes) -> bool:
        """Apply one; False if the first snapshot has it. Raises Broken."""
        session, _cxid, zxid, time, kind = _TXN_HEADER.unpack_from(body)
        if zxid <= self._begin:
            return False
        if zxid != self.zxid + 1 and zxid >> 32 <= self.zxid >> 32:
            raise Broken(f"after transaction {self.zxid:#x} comes {zxid:#x}")
        self.zxid = zxid
        raw = _Bytes(body)
        raw.at = _TXN_HEADER.size
        parts = [(kind, raw)]
        if kind == MULTI:
            parts = [(raw.take(">i"), _Bytes(raw.buffer() or b"")) for _ in range(raw.take(">i"))]
        if all(part != ERROR for part, _ in parts):
            for part, own in parts:
                try:
                    self._apply(part, own, session, time)
                except KeyError as error:
                    raise Broken(f"transaction {zxid:#x} needs {error}, which is not there") from error
        return True

    def _apply(self, kind: int, raw: _Bytes, session: int, time: int) -> None:
        if kind in (CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL):
            self._create(kind, raw, session, time)
        elif kind in (DELETE, DELETE_CONTAINER):
            self._delete(raw.text())
        elif kind == SET_DATA:
            path, data, version = raw.text(), raw.buffer(), raw.take(">i")
            node = self.nodes[path]
            self.nodes[path] = node._replace(data=data, version=version, mzxid=self.zxid, mtime=time)
        elif kind == SET_ACL:
            path, acl, version = raw.text(), raw.acls(), raw.take(">i")
            self.nodes[path] = self.nodes[path]._replace(acl=acl, aversion=version)
        elif kind == CREATE_SESSION:
            self.sessions[session] = raw.take(">i")
        elif kind == CLOSE_SESSION:
            for path in sorted(path for path, node in self.nodes.items() if node.owner == session):
                self._delete(path)
            self.sessions.pop(session, None)

    def _create(self, kind: int, raw: _Bytes, session: int, time: int) -> None:
        path, data, acl, owner = raw.text(), raw.buffer(), raw.acls(), 0
        if kind in (CREATE, CREATE2):
            owner = session if raw.take(">?") else 0
        created = raw.take(">i")
        if kind == CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif kind == CREATE_TTL:
            owner = ttl_owner(raw.take(">q"))
        zxid, above = self.zxid, parent(path)
        if path in self.nodes:
            raise Broken(f"transaction {zxid:#x} creates {path}, which is there")
        self.nodes[above] = self.nodes[above]._replace(created=created, pzxid=zxid)
        self.nodes[path] = Node(data, acl, owner, zxid, zxid, zxid, time, time, 0, 0, 0)

    def _delete(self, path: str) -> None:
        if path not in self.nodes:
            raise Broken(f"transaction {self.zxid:#x} deletes {path}, which is not there")
        del self.nodes[path]
        above = parent(path)
        self.nodes[above] = self.nodes[above]._replace(pzxid=self.zxid)


def parent(path: str) -> str:
    """The path above."""
    return path[: path.rfind("/")] or "/"


def differences(who: str, found: Nodes, expected: Nodes) -> list[str]:
    """In what a tree is not the expected one; for people, at most three."""
    paths = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
    return [f"{who}: {path} is {found.get(path)}, and not {expected.get(path)}" for path in paths[:3]]
