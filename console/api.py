"""What the console's addresses below /console/api/v1/ answer. `http` finds out who asks, and sends it.

Every request does a bounded amount of work, in slices that leave the loop to clients. docs/console.md has the
table of addresses.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from console import arguments, clients, cluster, znodes
from console.approvals import Approvals, Deletion, refusal
from console.editing import MODES, Editor, Refused, create, delete, delete_all, set_data
from console.listing import children_of, may_read, ordered, walk
from console.local_session import Connection
from console.logins import Login
from console.pacing import Pace, paced
from console.traffic import traffic
from proxy.admin.environment import VERSION
from proxy.admin.facts import Facts
from proxy.state.auth.ip import IP
from proxy.state.auth.scheme import Identities, Peer
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.sessions import session_text
from proxy.state.tree import Node
from schema.paths import ROOT, SPECIAL_PATHS, join

_MOST_VISITED = 50_000  # znodes that one search looks at; the next request continues there
_MOST_DELETED = 100_000  # znodes of one recursive deletion
_WALKS = 2  # walks through the tree at a time
_DIGEST = "digest"

Body = dict[str, Any]


class Call(NamedTuple):
    """One request."""

    login: Login
    query: Mapping[str, str]
    values: Mapping[str, Any]  # the JSON of a POST
    address: str  # the browser's


class _Subtree(NamedTuple):
    """A znode and all below it, as they were found."""

    paths: list[str]  # parents first
    mark: bytes  # a hash of the paths and of when each was created


class Api:
    """All answers about one proxy."""

    def __init__(
        self, facts: Facts, auth: AuthSchemes, make: Callable[[], Connection], *, users: bool, write: bool
    ) -> None:
        """`make` gives a connection for changes. `users`: logins are needed. `write`: changes are allowed."""
        self._facts = facts
        self._subject = facts.subject
        self._auth = auth
        self._make = make
        self._users = users
        self._write = write
        self._approvals = Approvals()
        self._walks = asyncio.Semaphore(_WALKS)
        self._turn = asyncio.Lock()

    def _pace(self) -> Pace:
        """That of one request."""
        return Pace(self._turn)

    # -- who asks --------------------------------------------------------------------------------------------

    def session(self, login: Login | None) -> Body:
        """Who is logged in, and which proxy this is."""
        subject = self._subject
        if login is None:
            return {"login": True}
        return {
            "login": False,
            "user": login.user,
            "users": self._users,
            "write": self._write,
            "identities": login.names,
            "modes": list(MODES),
            "proxy": subject.log.incarnation,
            "version": VERSION,
            "prefix": self._subject.settings.prefix,
            "port": subject.port,
            "serving": self._subject.serving,
            "notReady": self._facts.why_not_ready,
            "zxid": session_text(self._subject.machine.zxid),
            "znodes": len(subject.machine.tree.nodes),
            "bytes": subject.machine.tree.data_size,
            "sessions": len(subject.machine.sessions),
            "startedMs": int(subject.started * 1000),
            "nowMs": int(time.time() * 1000),
        }

    def identities_of(self, subject: str) -> Identities:
        """Those that a certificate proves, as at the clients' port."""
        proven = self._auth.identities(Peer("", subject))
        return tuple(identity for identity in proven if identity.scheme != IP.name)

    async def add_identity(self, call: Call) -> Body:
        """As the client's addauth: `credentials` are NAME:PASSWORD of the scheme digest."""
        credentials = arguments.word(call.values, "credentials")
        if ":" not in credentials or len(credentials) > 1000:
            raise Refused(400, "credentials are NAME:PASSWORD")
        proven = self._auth.authenticate(
            _DIGEST, credentials.encode("utf-8", "surrogatepass"), Peer(call.address)
        )
        try:
            call.login.add(proven)
        except ValueError as error:
            raise Refused(409, str(error)) from error
        return {"identities": call.login.names}

    async def forget_identities(self, call: Call) -> Body:
        """Have no identities again."""
        call.login.identities = ()
        self._approvals.drop(call.login)
        return {"identities": []}

    def login_ended(self, login: Login) -> None:
        """Nothing is deleted any more with the identities of this login."""
        self._approvals.drop(login)

    # -- the tree --------------------------------------------------------------------------------------------

    def _node(self, path: str, identities: Identities) -> Node:
        """The node, if it may be read."""
        node = self._subject.machine.tree.nodes.get(path)
        if node is None:
            if not self._subject.serving:
                raise Refused(503, self._facts.why_not_ready)
            raise Refused(404, f"there is no znode {path!r}")
        if not may_read(node, identities):
            raise Refused(403, f"the ACL of {path!r} does not let this login read it: add an identity")
        return node

    async def node(self, call: Call) -> Body:
        """One znode."""
        path = arguments.path(call.query)
        return znodes.details(path, self._node(path, call.login.identities), call.login.identities)

    def data(self, call: Call) -> bytes:
        """All data of a znode."""
        return self._node(arguments.path(call.query), call.login.identities).data or b""

    async def children(self, call: Call) -> Body:
        """A page of a znode's children whose names begin with `prefix`, behind the name `after`."""
        identities = call.login.identities
        path = arguments.path(call.query)
        node = self._node(path, identities)
        prefix, after = call.query.get("prefix", ""), call.query.get("after", "")
        limit = arguments.limit(call.query)
        nodes = self._subject.machine.tree.nodes
        names: list[str] = []
        pace = self._pace()
        wanted = ordered(lambda: children_of(node), lambda name: name > after and name.startswith(prefix))
        async for name in paced(wanted, pace):
            names.append(name)
            if len(names) > limit:
                break
        rows = []
        for name in names[:limit]:
            child = nodes.get(join(path, name))
            if child is not None:
                rows.append(znodes.row(name, child, identities))  # looks through its ACL, which may be long
                await pace.rest()
        return {
            "path": path,
            "total": len(children_of(node)),
            "children": rows,
            "next": names[limit - 1] if len(names) > limit else None,
        }

    async def search(self, call: Call) -> Body:
        """Paths below `path` that contain `text`; `next` is the next page's cursor, None at the end."""
        text = call.query.get("text", "")
        if not text or len(text) > 1000:
            raise Refused(400, "text is what the paths contain: 1 to 1000 characters")
        top = arguments.path(call.query)
        after = call.query.get("after")
        limit = arguments.limit(call.query)
        found: list[str] = []
        cursor = None
        visited = 0
        async with self._walks:
            paths = walk(self._subject.machine.tree.nodes, call.login.identities, top, after)
            async for path in paced(paths, self._pace()):
                visited += 1
                if text in path:
                    found.append(path)
                if len(found) >= limit or visited >= _MOST_VISITED:
                    cursor = path
                    break
        return {"paths": found, "visited": visited, "next": cursor}

    # -- clients ---------------------------------------------------------------------------------------------

    async def sessions(self, call: Call) -> Body:
        """A page of the tree's sessions."""
        after = call.query.get("after")
        first = -(1 << 64) if after is None else arguments.session_id(after)
        rows, cursor = await clients.sessions(self._subject, first, arguments.limit(call.query), self._pace())
        return {"sessions": rows, "total": len(self._subject.machine.sessions), "next": cursor}

    async def one_session(self, call: Call) -> Body:
        """One session with its ephemerals and watches."""
        session_id = arguments.session_id(call.query.get("id", ""))
        found = await clients.session(self._subject, session_id, arguments.limit(call.query), self._pace())
        if found is None:
            raise Refused(404, f"there is no session {session_text(session_id)}")
        return found

    async def watches(self, call: Call) -> Body:
        """A page of the watched paths."""
        rows, cursor = await clients.watches(
            self._subject,
            call.query.get("prefix", ""),
            call.query.get("after", ""),
            arguments.limit(call.query),
            self._pace(),
        )
        return {"watches": rows, "next": cursor}

    async def pending(self, _call: Call) -> Body:
        """Clients with unanswered requests."""
        return await clients.pending(self._subject, self._pace())

    # -- the proxy and the others ----------------------------------------------------------------------------

    async def traffic(self, _call: Call) -> Body:
        """Counters of this proxy."""
        return traffic(self._facts) | {"nowMs": int(time.monotonic() * 1000)}

    async def log(self, _call: Call) -> Body:
        """The log and its snapshots."""
        return cluster.log_facts(self._facts, time.monotonic())

    async def proxies(self, _call: Call) -> Body:
        """The living proxies."""
        return await cluster.proxies(self._facts, int(time.time() * 1000), self._pace())

    # -- changes ---------------------------------------------------------------------------------------------

    def _editor(self, call: Call) -> Editor:
        self._demand_write()
        return Editor(self._make, call.address, (call.login.user,), call.login.identities)

    def _demand_write(self) -> None:
        if not self._write:
            raise Refused(403, "this console only reads: start zketcd with --console-write")
        if not self._subject.serving:
            raise Refused(503, self._facts.why_not_ready)

    async def create(self, call: Call) -> Body:
        """Create a znode."""
        editor, values = self._editor(call), call.values
        # A sequential node's name may be only its number.
        path = (
            arguments.sequential_path(values)
            if values.get("mode") == "sequential"
            else arguments.valid_path(values)
        )
        made = await create(
            editor,
            path,
            arguments.data(values, ""),
            arguments.word(values, "mode", "persistent"),
            arguments.number(values, "ttl", 0),
            arguments.word(values, "acl", "world"),
        )
        return {"path": made}

    async def set_data(self, call: Call) -> Body:
        """Replace a znode's data."""
        editor, values = self._editor(call), call.values
        path = arguments.valid_path(values)
        await set_data(editor, path, arguments.data(values), arguments.version(values))
        return {"path": path}

    async def delete(self, call: Call) -> Body:
        """Delete a znode without children."""
        editor, values = self._editor(call), call.values
        path = arguments.valid_path(values)
        await delete(editor, path, arguments.version(values))
        return {"path": path}

    async def ask_deletion(self, call: Call) -> Body:
        """Ask for the deletion of a znode and all below it, which another user has to confirm."""
        self._demand_write()
        path = arguments.valid_path(call.values)
        identities = call.login.identities
        found = await self._subtree(path, identities)
        if call.login.is_over:  # meanwhile
            raise Refused(401, "log in first")
        try:
            asked = self._approvals.ask(
                path, len(found.paths), found.mark, call.login.user, identities, call.login, time.monotonic()
            )
        except ValueError as error:
            raise Refused(409, str(error)) from error
        return self._deletion(asked, call.login)

    async def deletions(self, call: Call) -> Body:
        """Deletions that wait for confirmation."""
        now = time.monotonic()
        return {"deletions": [self._deletion(asked, call.login) for asked in self._approvals.waiting(now)]}

    async def confirm_deletion(self, call: Call) -> Body:
        """Confirm a deletion, whose path and count are repeated, and carry it out."""
        self._demand_write()
        asked = self._asked(call)
        count = arguments.number(call.values, "count", -1)
        refused = refusal(asked, call.login.user, arguments.path(call.values), count)
        if refused:
            raise Refused(403, refused)
        self._approvals.take(asked.number)
        paths, mark = await self._subtree(asked.path, asked.identities)
        if len(paths) != asked.nodes:
            raise Refused(
                409, f"{asked.path} has {len(paths)} znodes by now, not {asked.nodes}: ask for it again"
            )
        if mark != asked.mark:
            raise Refused(409, f"{asked.path} has other znodes by now: ask for it again")
        users = (asked.user, call.login.user) if self._users else (asked.user,)
        editor = Editor(self._make, call.address, users, asked.identities)
        return {"path": asked.path, "deleted": await delete_all(editor, paths[::-1])}

    async def withdraw_deletion(self, call: Call) -> Body:
        """Forget a deletion."""
        self._demand_write()
        self._approvals.take(self._asked(call).number)
        return {}

    def _asked(self, call: Call) -> Deletion:
        asked = self._approvals.find(arguments.number(call.values, "number", 0), time.monotonic())
        if asked is None:
            raise Refused(404, "this deletion does not wait any more")
        return asked

    def _deletion(self, asked: Deletion, login: Login) -> Body:
        return {
            "number": asked.number,
            "path": asked.path,
            "count": asked.nodes,
            "user": asked.user,
            "seconds": int(asked.until - time.monotonic()),
            "mayConfirm": not refusal(asked, login.user, asked.path, asked.nodes),
        }

    async def _subtree(self, path: str, identities: Identities) -> _Subtree:
        """A znode and all below it. Raises Refused if it cannot all be deleted."""
        if path == ROOT or any(
            special == path or special.startswith(path + "/") for special in SPECIAL_PATHS
        ):
            raise Refused(400, f"{path} cannot be deleted")
        self._node(path, identities)
        hidden: list[str] = []
        found: list[str] = []
        mark = hashlib.sha256()
        nodes = self._subject.machine.tree.nodes
        async with self._walks:
            async for below in paced(walk(nodes, identities, path, hidden=hidden.append), self._pace()):
                found.append(below)
                node = nodes.get(below)  # it may have gone in the pause
                mark.update(f"{below}\0{node.czxid if node else 0}\0".encode("utf-8", "surrogatepass"))
                if hidden:
                    break
                if len(found) > _MOST_DELETED:
                    raise Refused(
                        409, f"{path} has more than {_MOST_DELETED} znodes: delete parts of it first"
                    )
        if hidden:
            raise Refused(403, f"the ACL of {hidden[0]!r} does not let this login list its children")
        return _Subtree(found, mark.digest())
