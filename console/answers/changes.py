"""What the console's addresses answer to changes: they are requests of sessions of their own."""

import time
from collections.abc import Callable

from codec.constants import ErrorCode
from codec.longs import hex64
from console.answers import arguments
from console.answers.reading import Reading, Subtree
from console.answers.subtrees import Gathered, imported
from console.people.approvals import Approvals, Deletion, refusal
from console.people.logins import Body, Call, Login, Refused
from console.sessions.editing import Editor, create, create_all, delete, delete_all, set_data
from console.walks.pacing import Pace
from proxy.admin.changes import Killer
from proxy.frontend.connection import Connection
from proxy.state.auth.scheme import Identities
from schema.paths import ROOT, SPECIAL_PATHS

_MOST_IMPORTED = 500  # znodes of one request


class Changes:
    """The changes that users ask one proxy for."""

    def __init__(
        self, reading: Reading, make: Callable[[], Connection], kill: Killer, *, users: bool, write: bool
    ) -> None:
        """`make` gives a connection. `kill` ends sessions. `users`, `write`: logins, changes are allowed."""
        self._reading = reading
        self._make = make
        self._kill = kill
        self._users = users
        self._write = write
        self._approvals = Approvals()

    def drop(self, login: Login) -> None:
        """Nothing is deleted any more with the identities of this login."""
        self._approvals.drop(login)

    def _editor(self, call: Call) -> Editor:
        self._demand_write()
        return Editor(self._make, call.address, (call.login.user,), call.login.identities)

    def _demand_write(self) -> None:
        if not self._write:
            raise Refused(403, "this console only reads: start zketcd with --console-write")
        self._reading.demand_serving()

    async def end_session(self, call: Call) -> Body:
        """End a session of the tree."""
        self._demand_write()
        session_id = arguments.session_id(arguments.word(call.values, "id"))
        name = f"console:{call.login.user}" if self._users else "console"
        error = await self._kill(session_id, f"{name} from {call.address}")
        if error:
            gone = error == ErrorCode.SESSION_EXPIRED
            why = "there is no such session" if gone else "the request was not taken: try again"
            raise Refused(404 if gone else 503, f"{hex64(session_id)} was not ended: {why}")
        return {"id": hex64(session_id)}

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

    async def copy(self, call: Call) -> Body:
        """Create a subtree once more, at another path. Ephemerals are left out."""
        editor, values = self._editor(call), call.values
        path, to = arguments.valid_path(values), arguments.valid_path({"path": values.get("to")})
        if to == path or to.startswith(f"{path.rstrip('/')}/"):
            raise Refused(400, f"{to} lies in {path}: a copy cannot be put into its original")
        gathered = Gathered(path, call.login.identities)
        await self._reading.subtree(path, call.login.identities, self._reading.pace(call), gathered.visit)
        items = gathered.created_at(to)
        if not items:
            raise Refused(409, f"{path} is ephemeral: it ends with its session, and is not copied")
        made = await create_all(editor, items, f"copy of {path}")
        return {"path": to, "created": made, "ephemerals": gathered.ephemerals}

    async def import_(self, call: Call) -> Body:
        """Create some znodes of a file in one transaction."""
        editor, values = self._editor(call), call.values
        top = arguments.path(values)
        items = imported(top, values.get("znodes"), arguments.word(values, "acl", "file"), _MOST_IMPORTED)
        return {"path": top, "created": await create_all(editor, items, "import", together=True)}

    async def ask_deletion(self, call: Call) -> Body:
        """Ask for the deletion of a znode and all below it, which another user has to confirm."""
        self._demand_write()
        path = arguments.valid_path(call.values)
        identities = call.login.identities
        found = await self._deletable(path, identities, self._reading.pace(call))
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
        paths, mark = await self._deletable(asked.path, asked.identities, self._reading.pace(call))
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

    async def _deletable(self, path: str, identities: Identities, pace: Pace) -> Subtree:
        """A znode and all below it. Raises Refused if it cannot all be deleted."""
        if path == ROOT or any(
            special == path or special.startswith(path + "/") for special in SPECIAL_PATHS
        ):
            raise Refused(400, f"{path} cannot be deleted")
        return await self._reading.subtree(path, identities, pace)
