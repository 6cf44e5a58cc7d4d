"""ZooKeeper's tree in the plainest way, with steps that can be undone.

Written from PrepRequestProcessor and DataTree, not from proxy/. Without ACLs, clocks, containers and TTLs,
which histories do not have. Each change goes through `_put`, which keeps what was there and a fingerprint of
all nodes: the search goes back and forth, and asks whether it has been in a state before.

A zxid may be None, not known, or a range. `assumed` nodes were there before the history; of them nothing is
known but that. Where the order of all requests is known, proof.naive judges them instead, with all features.
"""

from collections.abc import Container, Iterable
from typing import NamedTuple

from proof.history.calls import parent
from proof.history.records import (
    BAD_VERSION,
    NO_CHILDREN_FOR_EPHEMERALS,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    RUNTIME_INCONSISTENCY,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    Request,
    SetData,
    Stat,
    Zxid,
)

JUDGED = {NO_NODE, BAD_VERSION, NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, NOT_EMPTY}
"""Errors that follow from the tree. Others (no space, moved, malformed) say only that nothing was done."""

_FOREIGN = {"zookeeper"}


class Node(NamedTuple):
    """A znode. `version` and `created` (the sequence counter) are None in an assumed node."""

    data: bytes | None
    owner: int
    czxid: Zxid
    mzxid: Zxid
    pzxid: Zxid
    version: int | None = 0
    created: int | None = 0


_ASSUMED = Node(None, 0, None, None, None, None, None)


class Model:
    """All znodes."""

    def __init__(self, assumed: Iterable[str] = ("/",)) -> None:
        self.nodes: dict[str, Node] = {}
        self.names: dict[str, set[str]] = {}
        self.ephemerals: dict[int, set[str]] = {}
        self.fingerprint = 0
        self._kept: list[tuple[str, Node | None]] = []
        for path in assumed:
            self._set(path, _ASSUMED)

    def mark(self) -> int:
        """Where `back` may return to."""
        return len(self._kept)

    def back(self, mark: int) -> None:
        """Undo all changes since."""
        while len(self._kept) > mark:
            self._set(*self._kept.pop())

    def apply(self, request: Request, session: int, zxid: Zxid) -> Reply:
        """Do one request and return all that its reply could say. A refused one changes nothing."""
        if isinstance(request, Multi):
            return self._multi(request, session, zxid)
        if isinstance(request, CloseSession):
            for path in sorted(self.ephemerals.get(session, ())):
                self._remove(path, zxid)
            return Reply()
        if isinstance(request, Create):
            return self._create(request, session, zxid)
        if isinstance(request, Delete | SetData | Check | Exists | GetData | GetChildren):
            return self._at(request, zxid)
        return Reply()

    def _at(self, request: Delete | SetData | Check | Exists | GetData | GetChildren, zxid: Zxid) -> Reply:
        node = self.nodes.get(request.path)
        if node is None:
            return Reply(NO_NODE)
        if isinstance(request, Exists):
            return Reply(stat=self._stat(request.path, node))
        if isinstance(request, GetData):
            return Reply(stat=self._stat(request.path, node), data=node.data)
        if isinstance(request, GetChildren):
            names = self.names.get(request.path, ())
            return Reply(stat=self._stat(request.path, node), names=tuple(names))
        if request.version != -1 and node.version not in (None, request.version):
            return Reply(BAD_VERSION)
        if isinstance(request, Delete):
            if self.names.get(request.path):
                return Reply(NOT_EMPTY)
            self._remove(request.path, zxid)
        elif isinstance(request, SetData):
            version = None if node.version is None else node.version + 1
            node = node._replace(data=request.data, mzxid=zxid, version=version)
            self._put(request.path, node)
            return Reply(stat=self._stat(request.path, node))
        return Reply()

    def _create(self, request: Create, session: int, zxid: Zxid) -> Reply:
        above = parent(request.path)
        directory = self.nodes.get(above)
        if directory is None:
            return Reply(NO_NODE)
        path = request.path
        if request.sequential and directory.created is not None:
            path += f"{directory.created:010d}"
        if path in self.nodes:
            return Reply(NODE_EXISTS)
        if directory.owner:
            return Reply(NO_CHILDREN_FOR_EPHEMERALS)
        created = None if directory.created is None else directory.created + 1
        self._put(above, directory._replace(created=created, pzxid=zxid))
        node = Node(request.data, session if request.ephemeral else 0, zxid, zxid, zxid)
        self._put(path, node)
        return Reply(path=path, stat=self._stat(path, node))

    def _multi(self, request: Multi, session: int, zxid: Zxid) -> Reply:
        mark = self.mark()
        replies: list[Reply] = []
        for place, part in enumerate(request.parts):
            reply = self.apply(part, session, zxid)
            if reply.error:
                self.back(mark)
                after = len(request.parts) - place - 1
                return Reply(parts=(*[Reply()] * place, reply, *[Reply(RUNTIME_INCONSISTENCY)] * after))
            replies.append(reply)
        return Reply(parts=tuple(replies))

    def _remove(self, path: str, zxid: Zxid) -> None:
        self._put(path, None)
        above = parent(path)
        self._put(above, self.nodes[above]._replace(pzxid=zxid))

    def _stat(self, path: str, node: Node) -> Stat:
        if node.version is None:
            return Stat(owner=node.owner)
        count = len(self.names.get(path, ()))
        created = node.created or 0
        length = len(node.data or b"")
        return Stat(
            node.czxid, node.mzxid, node.version, 2 * created - count, node.owner, length, count, node.pzxid
        )

    def _put(self, path: str, node: Node | None) -> None:
        self._kept.append((path, self.nodes.get(path)))
        self._set(path, node)

    def _set(self, path: str, node: Node | None) -> None:
        old = self.nodes.get(path)
        if old is not None:
            self.fingerprint ^= hash((path, old))
        if node is not None:
            self.fingerprint ^= hash((path, node))
            self.nodes[path] = node
        elif old is not None:
            del self.nodes[path]
        if (old is None) == (node is None):
            return
        if path != "/":
            names = self.names.setdefault(parent(path), set())
            name = path[path.rfind("/") + 1 :]
            if node is None:
                names.discard(name)
            else:
                names.add(name)
        owner = (node or old or _ASSUMED).owner
        if owner:
            mine = self.ephemerals.setdefault(owner, set())
            if node is None:
                mine.discard(path)
            else:
                mine.add(path)


def differs(
    expected: Reply, seen: Reply, request: Request, *, assumed: bool = False, used: Container[int] = ()
) -> bool:
    """Whether a reply says something else than the model. What either leaves out (None) is not compared.

    `assumed`: the node was there before the history, so that its data are not known. `used`: zxids of known
    writes, which an expected range does not have.
    """
    if expected.parts is not None and seen.parts is not None:
        return _parts_differ(expected.parts, seen.parts, request, used)
    if expected.parts is not None:
        # The reply of a multi without its parts: only whether it failed.
        return bool(next((part.error for part in expected.parts if part.error), 0)) != bool(seen.error)
    if expected.error != seen.error:
        return True
    if seen.error:
        return False
    if seen.path is not None and seen.path != expected.path:
        return True
    if isinstance(request, GetData) and not assumed and seen.data != expected.data:
        return True
    if isinstance(request, GetChildren) and seen.names is not None:
        found = set(seen.names)
        if len(found) != len(seen.names):
            return True
        known = set(expected.names or ())
        if found != known and (request.path != "/" or found - _FOREIGN != known - _FOREIGN):
            return True
    if seen.stat is not None and expected.stat is not None:
        for ours, theirs in zip(expected.stat, seen.stat, strict=True):
            if ours is None or theirs is None or ours == theirs:
                continue
            if not isinstance(ours, tuple) or not isinstance(theirs, int):
                return True
            if not ours[0] < theirs <= ours[1] or theirs in used:
                return True
    return False


def _parts_differ(
    expected: tuple[Reply, ...], seen: tuple[Reply, ...], request: Request, used: Container[int]
) -> bool:
    assert isinstance(request, Multi)
    failed = next((place for place, part in enumerate(expected) if part.error), None)
    wrong = next((place for place, part in enumerate(seen) if part.error), None)
    if failed is not None or wrong is not None:
        return failed != wrong or expected[failed or 0].error != seen[wrong or 0].error
    if len(expected) != len(seen):
        return True
    return any(
        differs(ours, theirs, part, used=used)
        for ours, theirs, part in zip(expected, seen, request.parts, strict=True)
    )
