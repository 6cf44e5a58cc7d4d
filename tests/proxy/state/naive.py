"""ZooKeeper's tree in the plainest way: one dict, one request after another, a copy to go back to.

Written from PrepRequestProcessor and DataTree, not from proxy/; it knows no log. Permissions are those of
world:anyone only. Requests are told apart by their class; `Keepers` are what ClickHouse Keeper adds.
"""

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from codec.constants import ErrorCode, EventType, KeeperOpCode, OpCode, Perms
from codec.jute import Acl

Acls = tuple[Acl, ...]


class Create(NamedTuple):
    path: str
    data: bytes | None = b""
    acl: Acls = (Acl(31, "world", "anyone"),)
    flags: int = 0


class CreateMortal(NamedTuple):
    """createContainer (`ttl` None) or createTTL."""

    path: str
    ttl: int | None = None
    data: bytes | None = b""
    acl: Acls = (Acl(31, "world", "anyone"),)
    sequential: bool = False


class Delete(NamedTuple):
    path: str
    version: int = -1


class DeleteContainer(NamedTuple):
    path: str


class SetData(NamedTuple):
    path: str
    data: bytes | None = b""
    version: int = -1


class SetAcl(NamedTuple):
    path: str
    acl: Acls = (Acl(31, "world", "anyone"),)
    version: int = -1


class Check(NamedTuple):
    path: str
    version: int = -1


class CheckNotExists(NamedTuple):
    path: str
    version: int = -1


class CreateIfNotExists(NamedTuple):
    path: str
    data: bytes | None = b""
    acl: Acls = (Acl(31, "world", "anyone"),)
    flags: int = 0


class RemoveRecursive(NamedTuple):
    path: str
    limit: int = 1000


class CheckStat(NamedTuple):
    path: str
    version: int = -1
    stat: tuple[int, ...] = (-1,) * 11


class TryRemove(NamedTuple):
    path: str
    version: int = -1


Keepers = CheckNotExists | CreateIfNotExists | RemoveRecursive | CheckStat | TryRemove


class Multi(NamedTuple):
    parts: tuple[Create | CreateMortal | Delete | SetData | Check | Keepers, ...]


class CloseSession(NamedTuple):
    pass


Single = Create | CreateMortal | Delete | DeleteContainer | SetData | SetAcl | Check | Keepers
Asked = Single | Multi | CloseSession

_OPCODES: dict[type[Single], int] = {
    Create: OpCode.CREATE2,
    Delete: OpCode.DELETE,
    DeleteContainer: OpCode.DELETE_CONTAINER,
    SetData: OpCode.SET_DATA,
    SetAcl: OpCode.SET_ACL,
    Check: OpCode.CHECK,
    CheckNotExists: KeeperOpCode.CHECK_NOT_EXISTS,
    CreateIfNotExists: KeeperOpCode.CREATE_IF_NOT_EXISTS,
    RemoveRecursive: KeeperOpCode.REMOVE_RECURSIVE,
    CheckStat: KeeperOpCode.CHECK_STAT,
    TryRemove: KeeperOpCode.TRY_REMOVE,
}


class Refused(Exception):
    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Znode:
    data: bytes | None
    acl: Acls
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int = 0
    created: int = 0
    aversion: int = 0
    mortal: bool = False  # a container or TTL node


# What clients see of a node, in the order of ZooKeeper's Stat.
Stat = tuple[int, int, int, int, int, int, int, int, int, int, int]


class Answer(NamedTuple):
    """(path of a create, Stat) where the operation gives them."""

    path: str | None = None
    stat: Stat | None = None


class MultiAnswer(NamedTuple):
    answers: list[Answer]
    failed_at: int | None
    code: ErrorCode


@dataclass
class NaiveZooKeeper:
    """All znodes and living sessions, and what holds each; `events` are (type, path) in ZooKeeper's order."""

    nodes: dict[str, Znode] = field(default_factory=dict)
    sessions: dict[int, str] = field(default_factory=dict)
    events: list[tuple[int, str]] = field(default_factory=list)
    zxid: int = 0

    def children(self, path: str) -> list[str]:
        """The names of a node's children, in order."""
        start = path.rstrip("/") + "/"
        return sorted(
            other[len(start) :]
            for other in self.nodes
            if other != "/" and other.startswith(start) and "/" not in other[len(start) :]
        )

    def stat(self, path: str) -> Stat:
        """What ZooKeeper's Stat says of a node."""
        node = self.nodes[path]
        count = len(self.children(path))
        return (
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            2 * node.created - count,
            node.aversion,
            node.owner,
            len(node.data or b""),
            count,
            node.pzxid,
        )

    def ask(self, holder: str, session: int, asked: Asked, now: int) -> Answer | MultiAnswer:
        """Answer one request. Raises Refused; a refused request has changed nothing but the zxid."""
        self.zxid += 1
        if session not in self.sessions:
            raise Refused(ErrorCode.SESSION_EXPIRED)
        if self.sessions[session] != holder:
            raise Refused(ErrorCode.SESSION_MOVED)
        if isinstance(asked, CloseSession):
            self._end(session)
            return Answer()
        if isinstance(asked, Multi):
            return self._multi(session, asked, self.zxid, now)
        return self._single(session, asked, self.zxid, now)

    def open(self, holder: str, session: int) -> None:
        """A session begins. Raises Refused if there is one of that id."""
        if session in self.sessions:
            raise Refused(ErrorCode.SYSTEM_ERROR)
        self.zxid += 1
        self.sessions[session] = holder

    def attach(self, holder: str, session: int) -> None:
        """A session is held by another server from now on."""
        if session not in self.sessions:
            raise Refused(ErrorCode.SESSION_EXPIRED)
        self.sessions[session] = holder

    def expire(self, session: int, holder: str) -> None:
        """A session ends if it is held by that server; "" is any."""
        if session not in self.sessions:
            raise Refused(ErrorCode.SESSION_EXPIRED)
        if holder not in ("", self.sessions[session]):
            raise Refused(ErrorCode.SESSION_MOVED)
        self.zxid += 1
        self._end(session)

    def carry_over(self, old: str, new: str) -> None:
        """All sessions of one server are another one's."""
        for session, holder in self.sessions.items():
            if holder == old:
                self.sessions[session] = new

    def _end(self, session: int) -> None:
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session):
            self._remove(path, self.zxid)
        del self.sessions[session]

    def _multi(self, session: int, multi: Multi, zxid: int, now: int) -> MultiAnswer:
        nodes, events = copy.deepcopy(self.nodes), list(self.events)
        answers: list[Answer] = []
        for position, part in enumerate(multi.parts):
            try:
                answers.append(self._single(session, part, zxid, now))
            except Refused as refused:
                self.nodes, self.events = nodes, events
                return MultiAnswer([], position, refused.code)
        return MultiAnswer(answers, None, ErrorCode.OK)

    def _single(self, session: int, asked: Single, zxid: int, now: int) -> Answer:
        if isinstance(asked, Create):
            return self._create(session, asked, zxid, now)
        if isinstance(asked, CreateMortal):
            plain = Create(asked.path, asked.data, asked.acl, 2 if asked.sequential else 0)
            answer = self._create(session, plain, zxid, now)
            assert answer.path is not None
            self.nodes[answer.path].mortal = True
            return answer
        if isinstance(asked, Delete):
            parent = self._need(_parent(asked.path))
            _permit(parent, Perms.DELETE)
            node = self._need(asked.path)
            _match(asked.version, node.version)
            if self.children(asked.path):
                raise Refused(ErrorCode.NOT_EMPTY)
            self._remove(asked.path, zxid)
            return Answer()
        if isinstance(asked, Keepers):
            return self._keepers(session, asked, zxid, now)
        node = self._need(asked.path)
        if isinstance(asked, DeleteContainer):
            if self.children(asked.path):
                raise Refused(ErrorCode.NOT_EMPTY)
            if node.owner:
                raise Refused(ErrorCode.BAD_VERSION)
            _permit(self._need(_parent(asked.path)), Perms.DELETE)  # which ZooKeeper does not ask for
            self._remove(asked.path, zxid)
            return Answer()
        if isinstance(asked, Check):
            _permit(node, Perms.READ)
            _match(asked.version, node.version)
            return Answer()
        if isinstance(asked, SetAcl):
            _permit(node, Perms.ADMIN)
            _match(asked.version, node.aversion)
            node.acl = asked.acl
            node.aversion += 1
            return Answer(stat=self.stat(asked.path))
        _permit(node, Perms.WRITE)
        _match(asked.version, node.version)
        node.data = asked.data
        node.version += 1
        node.mzxid, node.mtime = zxid, now
        self.events.append((EventType.NODE_DATA_CHANGED, asked.path))
        return Answer(stat=self.stat(asked.path))

    def _keepers(self, session: int, asked: Keepers, zxid: int, now: int) -> Answer:
        above = self.nodes.get(_parent(asked.path))
        if isinstance(asked, CheckNotExists):
            if above is not None:
                _permit(above, Perms.READ)
            node = self.nodes.get(asked.path)
            if node is not None and asked.version in (-1, node.version):
                raise Refused(ErrorCode.NODE_EXISTS)
        elif isinstance(asked, CheckStat):
            node = self._need(asked.path)
            _permit(node, Perms.READ)
            _match(asked.version, node.version)
            for wanted, value in zip(asked.stat, self.stat(asked.path), strict=True):
                _match(wanted, value)
        elif isinstance(asked, CreateIfNotExists):
            if asked.flags & 2:
                raise Refused(ErrorCode.BAD_ARGUMENTS)
            try:
                self._create(session, Create(*asked), zxid, now)
            except Refused as refused:
                if refused.code != ErrorCode.NODE_EXISTS:
                    raise
            return Answer(asked.path)
        elif isinstance(asked, TryRemove):
            try:
                return self._single(session, Delete(*asked), zxid, now)
            except Refused as refused:
                if refused.code == ErrorCode.NO_AUTH:
                    raise
        elif above is not None:
            _permit(above, Perms.DELETE)
            self._need(asked.path)
            below = [path for path in self.nodes if path.startswith(asked.path + "/")]
            if len(below) >= asked.limit:
                raise Refused(ErrorCode.NOT_EMPTY)
            for path in (asked.path, *below):
                _permit(self.nodes[path], Perms.DELETE)
            for path in sorted((asked.path, *below), key=_steps, reverse=True):
                self._remove(path, zxid)
        return Answer()

    def _create(self, session: int, asked: Create, zxid: int, now: int) -> Answer:
        parent = self._need(_parent(asked.path))
        _permit(parent, Perms.CREATE)
        path = asked.path + (f"{parent.created:010d}" if asked.flags & 2 else "")
        if path in self.nodes:
            raise Refused(ErrorCode.NODE_EXISTS)
        if parent.owner:
            raise Refused(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        owner = session if asked.flags & 1 else 0
        self.nodes[path] = Znode(asked.data, asked.acl, owner, zxid, zxid, zxid, now, now)
        parent.created += 1
        parent.pzxid = zxid
        self.events.append((EventType.NODE_CREATED, path))
        return Answer(path, self.stat(path))

    def _remove(self, path: str, zxid: int) -> None:
        del self.nodes[path]
        self.nodes[_parent(path)].pzxid = zxid
        self.events.append((EventType.NODE_DELETED, path))

    def _need(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise Refused(ErrorCode.NO_NODE)
        return node


def opcode(asked: Single) -> int:
    """What a request goes under."""
    if isinstance(asked, CreateMortal):
        return OpCode.CREATE_CONTAINER if asked.ttl is None else OpCode.CREATE_TTL
    return _OPCODES[type(asked)]


def _parent(path: str) -> str:
    return path[: path.rfind("/")] or "/"


def _steps(path: str) -> tuple[int, list[str]]:
    return path.count("/"), path.split("/")


def _permit(node: Znode, permission: int) -> None:
    if not any(entry.perms & permission for entry in node.acl):
        raise Refused(ErrorCode.NO_AUTH)


def _match(wanted: int, version: int) -> None:
    if wanted not in (-1, version):
        raise Refused(ErrorCode.BAD_VERSION)
