"""A history taken apart: calls with their outcome, and sessions with their end."""

from dataclasses import dataclass, field

from proof.history.records import (
    CONNECTION_LOSS,
    AddWatch,
    CloseSession,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Invoked,
    Lost,
    Multi,
    Opened,
    Record,
    Replied,
    Reply,
    Request,
    SetWatches,
    Write,
)

NEVER = 1 << 62


class MalformedHistory(Exception):
    """The records do not fit together; the message says which does not."""


@dataclass(slots=True, eq=False)
class Call:
    """One request and what became of it.

    `invoked` and `returned` are positions of records; NEVER: no answer.
    """

    number: int
    session: int
    request: Request
    invoked: int
    returned: int = NEVER
    reply: Reply | None = None
    low: int = 0
    high: int = NEVER
    """The call's zxid is above `low`, which had been seen before it was sent.

    If it is not known, below `high`.
    """

    @property
    def zxid(self) -> int | None:
        """The reply's zxid, None if there is none."""
        return (self.reply.zxid or None) if self.reply is not None else None

    @property
    def changed(self) -> bool:
        """Whether this is a write that was acknowledged."""
        return self.reply is not None and isinstance(self.request, Write) and failure(self.reply) == 0

    def records(self) -> tuple[int, ...]:
        """Positions of the call's records."""
        return tuple(place for place in (self.invoked, self.returned) if 0 <= place < NEVER)


@dataclass(slots=True)
class Session:
    """What is known of one session."""

    id: int
    timeout_ms: int = 0
    calls: list[Call] = field(default_factory=list)
    expired: int | None = None
    """Position of the record that says that the session is over."""
    end: int | None = None
    """The zxid of that end, if it is known."""


@dataclass(slots=True)
class Taken:
    """A history taken apart."""

    records: list[Record]
    calls: list[Call] = field(default_factory=list)
    sessions: dict[int, Session] = field(default_factory=dict)


def take_apart(records: list[Record]) -> Taken:
    """Find calls and sessions. Raises MalformedHistory."""
    taken = Taken(records)
    waiting: dict[int, Call] = {}
    known: set[int] = set()
    time = None
    seen = 0
    for place, record in enumerate(records):
        if time is not None and record.time < time:
            raise MalformedHistory(f"record {place} is older than the record before it")
        time = record.time
        if isinstance(record, Invoked):
            if record.call in known:
                raise MalformedHistory(f"record {place} invokes call {record.call} again")
            session = taken.sessions.setdefault(record.session, Session(record.session))
            call = waiting[record.call] = Call(record.call, record.session, record.request, place)
            known.add(record.call)
            call.low = seen
            session.calls.append(call)
            taken.calls.append(call)
        elif isinstance(record, Replied | Lost):
            answered = waiting.pop(record.call, None)
            if answered is None:
                raise MalformedHistory(f"record {place} ends call {record.call}, which does not wait")
            if isinstance(record, Replied) and record.reply.error != CONNECTION_LOSS:
                answered.returned = place
                answered.reply = record.reply
                seen = max(seen, record.reply.zxid or 0)
        else:
            session = taken.sessions.setdefault(record.session, Session(record.session))
            if isinstance(record, Opened):
                session.timeout_ms = record.timeout_ms
            elif isinstance(record, Expired) and session.expired is None:
                session.expired = place
                session.end = record.zxid
    return taken


def parts_of(request: Request) -> tuple[Request, ...]:
    """A multi's parts; another request itself."""
    return request.parts if isinstance(request, Multi) else (request,)


def failure(reply: Reply) -> int:
    """The error of a reply: a multi's is its failed part's; 0 for none."""
    if reply.error or not reply.parts:
        return reply.error
    return next((part.error for part in reply.parts if part.error), 0)


def path_of(request: Request) -> str | None:
    """The path of a request that has one."""
    if isinstance(request, Multi | CloseSession | SetWatches):
        return None
    return request.path


def parent(path: str) -> str:
    """The path above."""
    return path[: path.rfind("/")] or "/"


def is_read(request: Request) -> bool:
    """Whether a request reads the tree, with or without a watch."""
    return isinstance(request, Exists | GetData | GetChildren)


def is_watch(request: Request) -> bool:
    """Whether a request only sets watches."""
    return isinstance(request, AddWatch | SetWatches)
