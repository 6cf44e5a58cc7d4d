"""Right histories of an ensemble in memory: a log, servers that apply it late, connections that break.

The tree is proof.naive, which knows nothing of the checker's model. Everything follows from the
seed.
"""

import random
from dataclasses import dataclass, field

from codec.constants import ErrorCode, EventType
from proof import naive
from proof.history import records as r
from proof.history.recorder import History

TIMEOUT_MS = 400
_MS = 1_000_000
_HOLDER = "server"
_PATHS = ("/a", "/b", "/q", "/a/x", "/a/y", "/b/x", "/q/x")

Ready = tuple[str, int | None, object]


@dataclass
class Entry:
    """One entry of the log; its zxid is its place, from 1."""

    session: int
    request: r.Request | None  # None: the session's end by expiry
    call: int | None


@dataclass
class Watches:
    """Those of one connection, as ZooKeeper's managers keep them."""

    data: set[str] = field(default_factory=set)
    children: set[str] = field(default_factory=set)
    persistent: set[str] = field(default_factory=set)
    recursive: set[str] = field(default_factory=set)

    def fire(self, type: int, path: str) -> bool:
        """Whether a change gives this connection an event; one-shot watches go."""
        hit = type != EventType.NODE_CHILDREN_CHANGED and any(
            path == above or path.startswith(above.rstrip("/") + "/") for above in self.recursive
        )
        hit |= path in self.persistent
        for watches, types in ((self.data, (1, 2, 3)), (self.children, (2, 4))):
            if type in types and path in watches:
                watches.discard(path)
                hit = True
        return hit


class Server:
    """A replica of the tree, some entries behind."""

    def __init__(self) -> None:
        self.tree = naive.NaiveZooKeeper()
        self.tree.nodes["/"] = naive.Znode(b"", naive.Create("").acl, 0, 0, 0, 0, 0, 0)
        self.applied = 0
        self.clients: dict[int, Client] = {}


class Client:
    """One session."""

    def __init__(self, session: int, server: Server) -> None:
        self.session = session
        self.server: Server | None = server
        self.watches = Watches()
        self.wanted = Watches()
        self.call: int | None = None
        self.request: r.Request | None = None
        self.sent: int | None = (
            None  # when a lost request may still come: before this log length there was no attach
        )
        self.seen = 0
        self.left_at: int | None = None
        self.silent = False
        self.waits_for: int | None = None


class Ensemble:
    """Run `run`, then look at `history`."""

    def __init__(
        self,
        seed: int,
        *,
        clients: int = 5,
        servers: int = 3,
        faults: float = 1.0,
        multis: float = 0.1,
        told: float = 0.5,
    ) -> None:
        self.chance = random.Random(seed)
        self.history = History()
        self.log = [Entry(0, None, None)]  # zxid 1, since 0 means none
        self.servers = [Server() for _ in range(servers)]
        self.clients: list[Client] = []
        self.late: list[tuple[Client, Entry]] = []  # on their way from a connection that broke
        self.time = 0
        self.faults = faults
        self.multis = multis
        self.told = told  # how many clients of sessions that ran out get an event
        self.values = 0
        self.sessions = 0
        for server in self.servers:
            self._apply(server)
        for _ in range(clients):
            self._open()

    def run(self, steps: int) -> History:
        """Do so many steps."""
        for _ in range(steps):
            self.time += self.chance.randrange(2 * _MS)
            self._step()
        return self.history

    def _step(self) -> None:
        if self.chance.random() < 0.5:
            server = self.chance.choice(self.servers)
            if server.applied < len(self.log):
                self._apply(server)
                return
        if self.late and self.chance.random() < 0.2:
            client, entry = self.late.pop(self.chance.randrange(len(self.late)))
            self.log.append(entry)
            return
        client = self.chance.choice(self.clients)
        if client.server is None:
            self._come_back(client)
        elif self.chance.random() < 0.01 * self.faults:
            self._break(client)
        elif client.call is None:
            self._ask(client)
        else:
            server = client.server
            while client.waits_for is not None:
                self._apply(server)

    def _open(self) -> None:
        self.sessions += 1
        client = Client(self.sessions, self.chance.choice(self.servers))
        self.clients.append(client)
        assert client.server is not None
        client.server.clients[client.session] = client
        for server in self.servers:
            server.tree.sessions[client.session] = _HOLDER
        self.history.opened(self.time, client.session, TIMEOUT_MS)

    def _break(self, client: Client) -> None:
        assert client.server is not None
        del client.server.clients[client.session]
        client.server = None
        client.left_at = self.time
        client.silent = self.chance.random() < 0.3
        client.watches = Watches()
        self.history.disconnected(self.time, client.session)
        if client.call is not None:
            self.history.lost(self.time, client.call)
            if client.waits_for is None and client.request is not None and self.chance.random() < 0.5:
                self.late.append((client, Entry(client.session, client.request, None)))
            client.call = client.request = client.waits_for = None

    def _come_back(self, client: Client) -> None:
        assert client.left_at is not None
        if client.silent:
            if self.time - client.left_at <= (TIMEOUT_MS + 50) * _MS:
                return
            self.late = [item for item in self.late if item[0] is not client]
            self.log.append(Entry(client.session, None, None))
            if self.chance.random() < self.told:
                self.history.expired(self.time, client.session)
            self.clients.remove(client)
            self._open()
            return
        server = self.chance.choice(self.servers)
        self.late = [item for item in self.late if item[0] is not client]  # refused from now on
        while server.applied < len(self.log):
            self._apply(server)
        client.server = server
        server.clients[client.session] = client
        self.history.attached(self.time, client.session)
        wanted = client.wanted
        if wanted.data or wanted.children or wanted.persistent or wanted.recursive:
            self._set_watches(client, server)

    def _set_watches(self, client: Client, server: Server) -> None:
        wanted, nodes = client.wanted, server.tree.nodes
        absent = sorted(path for path in wanted.data if self.chance.random() < 0.5 and path not in nodes)
        data = sorted(wanted.data - set(absent))
        request = r.SetWatches(
            client.seen,
            tuple(data),
            tuple(absent),
            tuple(sorted(wanted.children)),
            tuple(sorted(wanted.persistent)),
            tuple(sorted(wanted.recursive)),
        )
        call = self.history.invoke(self.time, client.session, request)
        again = Watches(persistent=set(wanted.persistent), recursive=set(wanted.recursive))
        for path in data:
            node = nodes.get(path)
            if node is None or node.mzxid > client.seen:
                self._tell(client, 2 if node is None else 3, path, None)
            else:
                again.data.add(path)
        again.data |= set(absent)
        for path in request.children:
            node = nodes.get(path)
            if node is None or node.pzxid > client.seen:
                self._tell(client, 2 if node is None else 4, path, None)
            else:
                again.children.add(path)
        client.watches = again
        client.seen = max(client.seen, server.applied)
        self.history.reply(self.time, call, r.Reply(zxid=server.applied))

    def _tell(self, client: Client, type: int, path: str, zxid: int | None) -> None:
        """An event; the client forgets the one-shot watches that it came from."""
        client.wanted.fire(type, path)
        if zxid is not None:
            client.seen = max(client.seen, zxid)
        self.history.event(self.time, client.session, type, path, zxid)

    def _ask(self, client: Client) -> None:
        server = client.server
        assert server is not None
        request = self._request()
        call = self.history.invoke(self.time, client.session, request)
        if isinstance(request, r.Exists | r.GetData | r.GetChildren | r.AddWatch):
            self.history.reply(self.time, call, self._read(client, server, request))
            return
        client.call = call
        if isinstance(request, r.Sync):
            while server.applied < len(self.log):
                self._apply(server)
            self.history.reply(self.time, call, r.Reply(zxid=server.applied))
            client.seen = server.applied
            client.call = None
            return
        client.request = request
        if self.chance.random() < 0.02 * self.faults:
            self._break(client)  # before it is in the log
            return
        self.log.append(Entry(client.session, request, call))
        client.waits_for = len(self.log)

    def _request(self) -> r.Request:
        kind = self.chance.random()
        path = self.chance.choice(_PATHS)
        watch = self.chance.random() < 0.3
        if kind < 0.12:
            return r.GetData(path, watch)
        if kind < 0.22:
            return r.Exists(path, watch)
        if kind < 0.32:
            return r.GetChildren(path, watch)
        if kind < 0.35:
            return r.AddWatch(path, self.chance.random() < 0.5)
        if kind < 0.40:
            return r.Sync()
        if kind < 0.40 + self.multis:
            return r.Multi(tuple(self._write(in_multi=True) for _ in range(self.chance.randrange(1, 4))))
        if kind < 0.51:
            return r.CloseSession() if self.chance.random() < 0.05 * self.faults else r.Sync()
        return self._write()

    def _write(self, *, in_multi: bool = False) -> r.Create | r.Delete | r.SetData | r.Check:
        path = self.chance.choice(_PATHS)
        version = self.chance.choice((-1, -1, -1, 0, 1))
        kind = self.chance.random()
        self.values += 1
        value = b"%d" % self.values
        if in_multi and kind < 0.2:
            return r.Check(path, version)
        if kind < 0.4:
            return r.Create(path, value, self.chance.random() < 0.3)
        if kind < 0.5:
            return r.Create("/q/n-", value, self.chance.random() < 0.3, True)
        if kind < 0.7:
            numbered = sorted(name for name in self.servers[0].tree.nodes if name.startswith("/q/n-"))
            if len(numbered) > 10 or (numbered and self.chance.random() < 0.5):
                return r.Delete(self.chance.choice(numbered))
            return r.Delete(path, version)
        return r.SetData(path, value, version)

    def _read(self, client: Client, server: Server, request: r.Request) -> r.Reply:
        client.seen = max(client.seen, server.applied)
        if isinstance(request, r.AddWatch):
            for watches in (client.watches, client.wanted):
                (watches.recursive if request.recursive else watches.persistent).add(request.path)
            return r.Reply(zxid=server.applied)
        assert isinstance(request, r.Exists | r.GetData | r.GetChildren)
        path = request.path
        node = server.tree.nodes.get(path)
        if request.watch and (node is not None or isinstance(request, r.Exists)):
            for watches in (client.watches, client.wanted):
                (watches.children if isinstance(request, r.GetChildren) else watches.data).add(path)
        if node is None:
            return r.Reply(r.NO_NODE, server.applied)
        stat = _stat(server.tree.stat(path))
        if isinstance(request, r.GetChildren):
            names = tuple(server.tree.children(path))
            return r.Reply(zxid=server.applied, stat=stat, names=names)
        data = node.data if isinstance(request, r.GetData) else None
        return r.Reply(zxid=server.applied, stat=stat, data=data)

    def _apply(self, server: Server) -> None:
        entry = self.log[server.applied]
        server.applied += 1
        zxid = server.applied
        tree = server.tree
        tree.zxid = zxid - 1
        tree.events.clear()
        reply = r.Reply(zxid=zxid)
        try:
            if entry.request is None:
                tree.expire(entry.session, "")
            else:
                reply = _reply(
                    tree.ask(_HOLDER, entry.session, _naive(entry.request), 0), entry.request, zxid
                )
        except naive.Refused as refused:
            reply = r.Reply(int(refused.code), zxid)
        for type, path in _with_parents(tree.events):
            for client in list(server.clients.values()):
                if client.watches.fire(type, path):
                    self._tell(client, type, path, zxid)
        waiting = server.clients.get(entry.session)
        if waiting is not None and entry.call is not None and waiting.call == entry.call:
            self.history.reply(self.time, entry.call, reply)
            waiting.seen = zxid
            waiting.call = waiting.request = waiting.waits_for = None
            if isinstance(entry.request, r.CloseSession):
                del server.clients[entry.session]
                self.clients.remove(waiting)
                self._open()


def _with_parents(events: list[tuple[int, str]]) -> list[tuple[int, str]]:
    found = []
    for type, path in events:
        found.append((int(type), path))
        if type != EventType.NODE_DATA_CHANGED:
            found.append((int(EventType.NODE_CHILDREN_CHANGED), path[: path.rfind("/")] or "/"))
    return found


def _naive(request: r.Request) -> naive.Asked:
    if isinstance(request, r.Multi):
        return naive.Multi(tuple(_naive(part) for part in request.parts))  # type: ignore[misc]
    if isinstance(request, r.Create):
        return naive.Create(request.path, request.data, flags=request.ephemeral + 2 * request.sequential)
    if isinstance(request, r.Delete):
        return naive.Delete(request.path, request.version)
    if isinstance(request, r.SetData):
        return naive.SetData(request.path, request.data, request.version)
    if isinstance(request, r.Check):
        return naive.Check(request.path, request.version)
    return naive.CloseSession()


def _stat(stat: naive.Stat) -> r.Stat:
    czxid, mzxid, _, _, version, cversion, _, owner, length, children, pzxid = stat
    return r.Stat(czxid, mzxid, version, cversion, owner, length, children, pzxid)


def _reply(answer: naive.Answer | naive.MultiAnswer, request: r.Request, zxid: int) -> r.Reply:
    if isinstance(answer, naive.MultiAnswer):
        assert isinstance(request, r.Multi)
        if answer.failed_at is not None:
            after = len(request.parts) - answer.failed_at - 1
            failed = r.Reply(int(answer.code))
            parts = (
                *[r.Reply()] * answer.failed_at,
                failed,
                *[r.Reply(int(ErrorCode.RUNTIME_INCONSISTENCY))] * after,
            )
            return r.Reply(zxid=zxid, parts=parts)
        return r.Reply(
            zxid=zxid, parts=tuple(_reply(each, request, zxid)._replace(zxid=None) for each in answer.answers)
        )
    stat = _stat(answer.stat) if answer.stat is not None else None
    return r.Reply(zxid=zxid, path=answer.path, stat=stat)
