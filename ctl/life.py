"""`session`: the life of one session, from the entries of all proxies: opened, moved, ended, by whom and why.

An entry shows what was asked for; what the state machine refuses, such as the end of a session by a proxy
that does not hold it, is left out as there.
"""

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from typing import Any

from cli.output import CommandFailed, Output, counted, date, say
from codec.constants import OpCode
from codec.longs import hex64, unsigned
from ctl.history import written
from ctl.program import Program, Tree
from ctl.sessions import Clients, add_id, clients_of
from proxy.log.record import living_of
from proxy.options.archive import archive_url
from proxy.state.machine import Machine
from schema.entry import Kind, Request, Written, decode_carry_over, decode_close, decode_entry, decode_terms
from schema.errors import BadValue
from schema.record import Home


class Life:
    """Follows one session from entry to entry."""

    def __init__(self, session_id: int) -> None:
        self._id = session_id
        self.events: list[dict[str, Any]] = []
        self.began = 0  # clock of the first entry that was looked at
        self.writes = 0  # that the client has sent to its holder, also those that were refused
        self.wrote = 0  # clock of the last of them
        self._holder = ""  # "" also before the entries show it
        self._ended = False
        self._timeout = 0
        self._password: bytes | None = None

    def follow(self, entries: Iterable[Written]) -> None:
        """Look at entries, in their order; those that were looked at before do not count again."""
        seen: set[tuple[str, int]] = set()
        for position, incarnation, number, value in entries:
            if (incarnation, number) in seen:
                continue
            seen.add((incarnation, number))
            try:
                entry = decode_entry(value)
            except BadValue:
                continue  # `log` shows it
            self.began = self.began or entry.clock
            for request in entry.requests:
                try:
                    what = self._what(request, incarnation, entry.clock)
                except BadValue as error:
                    what = f"a request that cannot be read: {error}"
                if what:
                    self.events.append(
                        {"time": date(entry.clock), "position": position, "proxy": incarnation, "event": what}
                    )

    def _what(self, request: Request, sender: str, clock: int) -> str:
        """What a request does to the session; "" for nothing."""
        if request.kind == Kind.CARRY_OVER:
            old = decode_carry_over(request.body).old
            if not self._holder or old != self._holder:
                return ""
            self._holder = sender
            return f"carried over from {old}: the same proxy, as another incarnation or process"
        if request.session_id != self._id:
            return ""
        match request.kind:
            case Kind.OPEN:
                self._timeout, self._password = decode_terms(request.body)
                self._holder, self._ended = sender, False
                return f"opened, timeout {self._timeout} ms"
            case Kind.ATTACH:
                return self._attached(request, sender)
            case Kind.CLOSE:
                reason, holder = decode_close(request.body)
                if self._ended or (holder and self._holder and holder != self._holder):
                    return ""
                self._holder, self._ended = "", True
                return f"ended: {reason}{self._silent_since(reason, clock)}"
            case Kind.CLIENT if self._ended or self._holder not in ("", sender):
                return ""  # SESSION_EXPIRED, SESSION_MOVED
            case Kind.CLIENT if request.opcode == OpCode.CLOSE_SESSION:
                self._holder, self._ended = "", True
                return "ended by its client"
            case Kind.CLIENT if request.opcode != OpCode.SYNC:
                self.writes += 1
                self.wrote = clock
        return ""

    def _attached(self, request: Request, sender: str) -> str:
        timeout, password = decode_terms(request.body)
        if self._password is not None and password != self._password:
            return "refused: a wrong password"
        if self._ended:
            return "refused: it had ended"
        moved = f"moved from {self._holder}" if self._holder not in ("", sender) else "continued"
        self._holder, self._timeout, self._password = sender, timeout, password
        return f"{moved}: its client has connected again"

    def _silent_since(self, reason: str, clock: int) -> str:
        """When a client that was silent was heard last, about."""
        return f", since {date(clock - self._timeout)} about" if "silent" in reason and self._timeout else ""


def show(
    session_id: int, machine: Machine, homes: Mapping[str, Home], clients: Clients, entries: Iterable[Written]
) -> Output:
    """What became of a session. Raises CommandFailed for one that nothing is known of."""
    life = Life(session_id)
    life.follow(entries)
    name = hex64(session_id)
    session = machine.sessions.get(session_id)
    begins = f"the entries that were read begin at {date(life.began)}" if life.began else "no entry was read"
    if session is None and not life.events and not life.writes:
        raise CommandFailed(
            f"nothing is known of session {name}: it does not live, and {begins}. An archive has older"
            " entries: --archive URL"
        )
    if session is None:
        now = "it has ended" if life.events else "it does not live"
    else:
        home = homes.get(session.incarnation)
        client = clients.get(unsigned(session_id))
        connected = f"client {client}" if client else "client unknown or not connected"
        where = (
            f"{session.incarnation} on {home.host or 'an unknown host'}" if home else "a proxy that is gone"
        )
        now = (
            f"it lives, held by {where}, {connected},"
            f" timeout {session.timeout_ms} ms,"
            f" {counted(len(machine.tree.ephemerals.get(session_id, ())), 'ephemeral')}"
        )
    for event in life.events:
        home = homes.get(event["proxy"])
        event["host"] = home.host if home else ""
    lines = [
        f"{event['time']}  {event['proxy']} ({event['host'] or 'gone'})  {event['event']}"
        for event in life.events
    ]
    if life.writes:
        lines.append(f"{counted(life.writes, 'write')} of its client, the last at {date(life.wrote)}")
    if not any(event["event"].startswith("opened") for event in life.events):
        lines.insert(0, f"{begins}: it was opened before")
    document = {
        "session": name,
        "lives": session is not None,
        "holder": session.incarnation if session else None,
        "client": clients.get(unsigned(session_id)),
        "events": life.events,
        "writes": life.writes,
        "last_write": date(life.wrote) if life.writes else None,
    }
    return Output(document, [*lines, f"session {name}: {now}"])


def _arguments(parser: ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument(
        "--archive",
        type=archive_url,
        metavar="URL",
        help="read the entries of the archive there first: etcd's log has only the newest (docs/archive.md)",
    )


def _run(tree: Tree, given: Any) -> Output:
    """From the archive, the log in etcd, and the state."""
    entries = _archived(given.archive) if given.archive else []
    found, newest = tree.ask(written)
    homes = living_of(found, tree.keys).homes
    machine = tree.machine()
    session = machine.sessions.get(given.session)
    holder = session.incarnation if session is not None else ""
    clients, unknown = clients_of({holder: homes[holder]} if holder in homes else {})
    for line in unknown:
        say(f"zketcd session: {line}")
    return show(given.session, machine, homes, clients, [*entries, *newest])


def _archived(url: str) -> list[Written]:
    """The entries of an archive, in their order. Raises CommandFailed; blocks."""
    from archive.files.catalog import ArchiveError, Catalog
    from archive.files.store import existing
    from archive.past.state import read

    try:
        store = existing(url)
        return [
            record
            for run in Catalog(store.list()).runs
            for each in run.segments
            for record in read(store, run, each).records
        ]
    except ArchiveError as error:
        raise CommandFailed(str(error)) from error


PROGRAMS = {"session": Program(_run, _arguments)}
