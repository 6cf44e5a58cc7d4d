"""The naive ZooKeeper: one dict of znodes, one request after another, a copy to go back to."""

import copy
from dataclasses import dataclass, field

from codec.constants import ErrorCode, EventType, Perms
from lab.oracle import requests as oracle
from proof.naive.budgets import NaiveBudgets
from proof.naive.requests import Answer, Asked, Creates, Keepers, MultiAnswer, Refused, Stat
from proof.naive.rules import Identities, check_quota, permit, stored
from proof.naive.znode import Znode


@dataclass
class NaiveZooKeeper:
    """All znodes and living sessions, and what holds each; `events` are (type, path) in ZooKeeper's order."""

    nodes: dict[str, Znode] = field(default_factory=dict)
    sessions: dict[int, str] = field(default_factory=dict)
    events: list[tuple[int, str]] = field(default_factory=list)
    zxid: int = 0
    #: Scheme and id of the client that asks.
    identities: Identities = (("ip", "127.0.0.1"),)
    #: Whether hard quotas refuse requests.
    enforces_quotas: bool = False
    #: All znodes before the request that is being answered: quotas count these.
    before: dict[str, Znode] = field(default_factory=dict)
    budgets: NaiveBudgets = field(default_factory=NaiveBudgets)

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
        """Answer one request. Raises Refused; a refused one has changed nothing but the zxid and budgets."""
        self.zxid += 1
        self.before = dict(self.nodes)
        if session not in self.sessions:
            raise Refused(ErrorCode.SESSION_EXPIRED)
        if self.sessions[session] != holder:
            raise Refused(ErrorCode.SESSION_MOVED)
        if self.budgets.refuses(asked):
            self.zxid -= 1  # as ZooKeeper does when it throttles
            raise Refused(ErrorCode.THROTTLED_OP)
        if isinstance(asked, oracle.CloseSession):
            self._end(session)
            return Answer()
        answer: Answer | MultiAnswer
        if isinstance(asked, oracle.Multi):
            answer = self._multi(session, asked, self.zxid, now)
        else:
            answer = self._single(session, asked, self.zxid, now)
        if self.nodes != self.before:
            self.budgets.take(asked)
        return answer

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

    def due(self, path: str, czxid: int, version: int, mtime: int, *, never_used: bool) -> None:
        """A server has found that a container or TTL node is over, which was like that then.

        `never_used`: also a container that never had a child.
        """
        node = self._need(path)
        if self.children(path):
            raise Refused(ErrorCode.NOT_EMPTY)
        if not node.mortal or (node.czxid, node.version, node.mtime) != (czxid, version, mtime):
            raise Refused(ErrorCode.BAD_VERSION)
        if node.container and not node.created and not never_used:
            raise Refused(ErrorCode.BAD_VERSION)
        self.zxid += 1
        self._remove(path, self.zxid)

    def _end(self, session: int) -> None:
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session):
            self._remove(path, self.zxid)
        del self.sessions[session]

    def _multi(self, session: int, multi: oracle.Multi, zxid: int, now: int) -> MultiAnswer:
        nodes, events = self.before, list(self.events)
        answers: list[Answer] = []
        for position, part in enumerate(multi.ops):
            try:
                answers.append(self._single(session, part, zxid, now))
            except Refused as refused:
                self.nodes, self.events = nodes, events
                return MultiAnswer([], position, refused.code)
        return MultiAnswer(answers, None, ErrorCode.OK)

    def _single(self, session: int, asked: oracle.Request, zxid: int, now: int) -> Answer:
        if isinstance(asked, oracle.Create | oracle.CreateContainer | oracle.CreateTtl):
            return self._create(session, asked, zxid, now)
        if isinstance(asked, Keepers):
            return self._keepers(session, asked, zxid, now)
        assert isinstance(
            asked, oracle.Delete | oracle.DeleteContainer | oracle.SetData | oracle.SetAcl | oracle.Check
        )
        path = str(asked.path)
        if isinstance(asked, oracle.Delete):
            parent = self._need(_parent(path))
            permit(self.identities, parent, Perms.DELETE)
            node = self._need(path)
            _match(asked.version, node.version)
            if self.children(path):
                raise Refused(ErrorCode.NOT_EMPTY)
            self._remove(path, zxid)
            return Answer()
        acl = stored(self.identities, asked.acls) if isinstance(asked, oracle.SetAcl) else ()
        node = self._need(path)
        if isinstance(asked, oracle.DeleteContainer):
            if self.children(path):
                raise Refused(ErrorCode.NOT_EMPTY)
            if node.owner:
                raise Refused(ErrorCode.BAD_VERSION)
            permit(self.identities, self._need(_parent(path)), Perms.DELETE)  # ZooKeeper does not ask for it
            self._remove(path, zxid)
            return Answer()
        if isinstance(asked, oracle.Check):
            permit(self.identities, node, Perms.READ)
            _match(asked.version, node.version)
            return Answer()
        if isinstance(asked, oracle.SetAcl):
            permit(self.identities, node, Perms.ADMIN)
            _match(asked.version, node.aversion)
            node = self._changeable(path)
            node.acl = acl
            node.aversion += 1
            return Answer(stat=self.stat(path))
        permit(self.identities, node, Perms.WRITE)
        if self.enforces_quotas:
            check_quota(self.before, path, 0, len(asked.data or b"") - len(node.data or b""))
        _match(asked.version, node.version)
        node = self._changeable(path)
        node.data = asked.data
        node.version += 1
        node.mzxid, node.mtime = zxid, now
        self.events.append((EventType.NODE_DATA_CHANGED, path))
        return Answer(stat=self.stat(path))

    def _keepers(self, session: int, asked: Keepers, zxid: int, now: int) -> Answer:
        path = str(asked.path)
        above = self.nodes.get(_parent(path))
        if isinstance(asked, oracle.CheckNotExists):
            if above is not None:
                permit(self.identities, above, Perms.READ)
            node = self.nodes.get(path)
            if node is not None and asked.version in (-1, node.version):
                raise Refused(ErrorCode.NODE_EXISTS)
        elif isinstance(asked, oracle.CheckStat):
            node = self._need(path)
            permit(self.identities, node, Perms.READ)
            _match(asked.version, node.version)
            for wanted, value in zip(asked.stat, self.stat(path), strict=True):
                _match(wanted, value)
        elif isinstance(asked, oracle.CreateIfNotExists):
            if asked.flags & 2:
                raise Refused(ErrorCode.BAD_ARGUMENTS)
            try:
                self._create(session, oracle.Create(*asked), zxid, now)
            except Refused as refused:
                if refused.code != ErrorCode.NODE_EXISTS:
                    raise
            return Answer(path)
        elif isinstance(asked, oracle.TryRemove):
            try:
                return self._single(session, oracle.Delete(*asked), zxid, now)
            except Refused as refused:
                if refused.code == ErrorCode.NO_AUTH:
                    raise
        elif above is not None:
            permit(self.identities, above, Perms.DELETE)
            self._need(path)
            below = [other for other in self.nodes if other.startswith(path + "/")]
            if len(below) >= asked.limit:
                raise Refused(ErrorCode.NOT_EMPTY)
            for each in (path, *below):
                permit(self.identities, self.nodes[each], Perms.DELETE)
            for each in sorted((path, *below), key=_steps, reverse=True):
                self._remove(each, zxid)
        return Answer()

    def _create(self, session: int, asked: Creates, zxid: int, now: int) -> Answer:
        acl = stored(self.identities, asked.acls)
        above = _parent(str(asked.path))
        parent = self._need(above)
        permit(self.identities, parent, Perms.CREATE)
        path = str(asked.path) + (f"{parent.created:010d}" if asked.flags & 2 else "")
        if path in self.nodes:
            raise Refused(ErrorCode.NODE_EXISTS)
        if parent.owner:
            raise Refused(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        owner = session if isinstance(asked, oracle.Create) and asked.flags & 1 else 0
        if self.enforces_quotas:
            check_quota(self.before, path, 1, len(asked.data or b""))
        parent = self._changeable(above)
        node = self.nodes[path] = Znode(asked.data, acl, owner, zxid, zxid, zxid, now, now)
        node.container = isinstance(asked, oracle.CreateContainer)
        node.mortal = isinstance(asked, oracle.CreateContainer | oracle.CreateTtl)
        parent.created += 1
        parent.pzxid = zxid
        self.events.append((EventType.NODE_CREATED, path))
        return Answer(path, self.stat(path))

    def _remove(self, path: str, zxid: int) -> None:
        del self.nodes[path]
        self._changeable(_parent(path)).pzxid = zxid
        self.events.append((EventType.NODE_DELETED, path))

    def _changeable(self, path: str) -> Znode:
        """A node to be changed: what `before` has stays as it was."""
        node = self.nodes[path] = copy.copy(self.nodes[path])
        return node

    def _need(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise Refused(ErrorCode.NO_NODE)
        return node


def _parent(path: str) -> str:
    return path[: path.rfind("/")] or "/"


def _steps(path: str) -> tuple[int, list[str]]:
    return path.count("/"), path.split("/")


def _match(wanted: int, version: int) -> None:
    if wanted not in (-1, version):
        raise Refused(ErrorCode.BAD_VERSION)
