"""What the console's addresses below /console/api/v1/ answer. `http` finds out who asks, and sends it.

Every request does a bounded amount of work, in slices that leave the loop to clients. docs/console.md has the
table of addresses.
"""

import time
from collections.abc import Callable

from codec.longs import hex64
from console.answers import arguments, clients, cluster
from console.answers.changes import Changes
from console.answers.past import ArchivePlace, Past
from console.answers.reading import Reading
from console.answers.recorder import Recorder
from console.answers.traffic import traffic
from console.answers.trees import Trees
from console.people.logins import Body, Call, Login, Refused
from console.sessions.editing import MODES
from proxy.admin.changes import Killer
from proxy.admin.facts import VERSION, Facts
from proxy.admin.top import document
from proxy.frontend.connection import Connection
from proxy.state.auth.ip import IP
from proxy.state.auth.scheme import Identities, Remote
from proxy.state.auth.schemes import AuthSchemes
from proxy.support.environment import clock_ms

_DIGEST = "digest"


class Api:
    """All answers about one proxy."""

    def __init__(
        self,
        facts: Facts,
        auth: AuthSchemes,
        make: Callable[[], Connection],
        kill: Killer,
        *,
        users: bool,
        write: bool,
        archive: ArchivePlace | None = None,
    ) -> None:
        """`make` gives a connection for changes. `kill` ends sessions.

        `users`: logins are needed. `write`: changes are allowed.
        """
        self._facts = facts
        self._subject = facts.subject
        self._auth = auth
        self._users = users
        self._write = write
        reading = Reading(facts)
        self.reading = reading
        self.trees = Trees(reading)
        self.changes = Changes(reading, make, kill, users=users, write=write)
        self.recorder = Recorder(facts)
        self.past = Past(reading, archive) if archive is not None else None

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
            "archive": self.past is not None,
            "identities": login.names,
            "modes": list(MODES),
            "proxy": subject.log_status().incarnation,
            "version": VERSION,
            "prefix": self._subject.config.prefix,
            "port": subject.ports.number,
            "serving": self._subject.handshake.is_open,
            "notReady": self._facts.why_not_ready,
            "zxid": hex64(self._subject.machine.zxid),
            "znodes": len(subject.machine.tree.nodes),
            "bytes": subject.machine.tree.data_size,
            "sessions": len(subject.machine.sessions),
            "startedMs": int(subject.started * 1000),
            "nowMs": clock_ms(),
        }

    def identities_of(self, subject: str) -> Identities:
        """Those that a certificate proves, as at the clients' port."""
        proven = self._auth.identities(Remote("", subject))
        return tuple(identity for identity in proven if identity.scheme != IP.name)

    async def add_identity(self, call: Call) -> Body:
        """As the client's addauth: `credentials` are NAME:PASSWORD of the scheme digest."""
        credentials = arguments.word(call.values, "credentials")
        if ":" not in credentials or len(credentials) > 1000:
            raise Refused(400, "credentials are NAME:PASSWORD")
        proven = self._auth.authenticate(
            _DIGEST, credentials.encode("utf-8", "surrogatepass"), Remote(call.address)
        )
        try:
            call.login.add(proven)
        except ValueError as error:
            raise Refused(409, str(error)) from error
        return {"identities": call.login.names}

    async def forget_identities(self, call: Call) -> Body:
        """Have no identities again."""
        call.login.identities = ()
        self.changes.drop(call.login)
        return {"identities": []}

    def login_ended(self, login: Login) -> None:
        """Nothing is deleted any more with the identities of this login."""
        self.changes.drop(login)

    # -- clients ---------------------------------------------------------------------------------------------

    async def sessions(self, call: Call) -> Body:
        """A page of the tree's sessions."""
        return await clients.sessions(self._subject, arguments.order(call.query), self.reading.pace(call))

    async def one_session(self, call: Call) -> Body:
        """One session with its ephemerals and watches."""
        session_id = arguments.session_id(call.query.get("id", ""))
        found = await clients.session(
            self._subject, session_id, arguments.limit(call.query), self.reading.pace(call)
        )
        if found is None:
            raise Refused(404, f"there is no session {hex64(session_id)}")
        return found

    async def watches(self, call: Call) -> Body:
        """A page of the watched paths."""
        rows, cursor = await clients.watches(
            self._subject,
            call.query.get("prefix", ""),
            call.query.get("after", ""),
            arguments.limit(call.query),
            self.reading.pace(call),
        )
        return {"watches": rows, "next": cursor}

    async def pending(self, call: Call) -> Body:
        """Clients with unanswered requests."""
        return await clients.pending(self._subject, self.reading.pace(call))

    # -- the proxy and the others ----------------------------------------------------------------------------

    async def traffic(self, _call: Call) -> Body:
        """Counters of this proxy."""
        return traffic(self._facts) | {"nowMs": int(time.monotonic() * 1000)}

    async def traffic_history(self, call: Call) -> Body:
        """Rates and latencies of the last minutes, or of the last hour."""
        return self.recorder.history(arguments.seconds(call.query))

    async def top(self, _call: Call) -> Body:
        """The busiest paths, sessions and clients of this proxy."""
        return document(self._subject.sampling, 10)

    async def log(self, _call: Call) -> Body:
        """The log and its snapshots."""
        return cluster.log_facts(self._facts, time.monotonic())

    async def proxies(self, call: Call) -> Body:
        """The living proxies."""
        return await cluster.proxies(self._facts, clock_ms(), self.reading.pace(call))
