"""What writes make of a tree, as ZooKeeper's documents say, by zxid. Imports nothing of what it judges."""

from typing import NamedTuple

Acl = tuple[tuple[int, str, str], ...]
OPEN: Acl = ((31, "world", "anyone"),)


class Write(NamedTuple):
    """A write that took effect."""

    zxid: int
    kind: str  # create, set, delete, acl
    path: str
    data: bytes = b""
    acl: Acl = OPEN
    owner: int = 0
    time: int | None = None  # milliseconds, of a set


class Seen(NamedTuple):
    """A node, field by field; None: not known."""

    data: bytes
    acl: Acl
    czxid: int
    mzxid: int
    pzxid: int
    mtime: int | None
    version: int
    cversion: int
    aversion: int
    owner: int
    children: int

    def differs(self, other: "Seen") -> bool:
        """Whether a field differs that both know."""
        return any(one != two for one, two in zip(self, other, strict=True) if None not in (one, two))


class Model:
    """The tree after the writes that were applied so far."""

    def __init__(self) -> None:
        self.nodes: dict[str, Seen] = {}
        self.zxid = 0

    def apply(self, write: Write) -> None:
        """The next write."""
        assert write.zxid > self.zxid, f"zxid {write.zxid:#x} is not above {self.zxid:#x}"
        self.zxid = zxid = write.zxid
        if write.kind == "create":
            assert write.path not in self.nodes, f"{write.path} was there"
            made = Seen(write.data, write.acl, zxid, zxid, zxid, write.time, 0, 0, 0, write.owner, 0)
            self.nodes[write.path] = made
            self._child(write.path, zxid, 1)
        elif write.kind == "delete":
            del self.nodes[write.path]
            self._child(write.path, zxid, -1)
        elif write.kind == "set":
            node = self.nodes[write.path]
            changed = node._replace(data=write.data, mzxid=zxid, mtime=write.time, version=node.version + 1)
            self.nodes[write.path] = changed
        else:
            node = self.nodes[write.path]
            self.nodes[write.path] = node._replace(acl=write.acl, aversion=node.aversion + 1)

    def _child(self, path: str, zxid: int, more: int) -> None:
        above = path.rpartition("/")[0]
        if above in self.nodes:
            node = self.nodes[above]
            children = node.children + more
            self.nodes[above] = node._replace(cversion=node.cversion + 1, pzxid=zxid, children=children)
