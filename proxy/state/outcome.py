"""The outcome of a request."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from codec.constants import ErrorCode


class Outcome(NamedTuple):
    """The result of a request: 0 or an ErrorCode, and the body of its reply if one is needed."""

    err: int
    body: bytes


DONE = Outcome(0, b"")


class Refusal(Exception):
    """An operation's answer is one of ZooKeeper's error codes, seldom with a body."""

    def __init__(self, code: ErrorCode, body: bytes = b"") -> None:
        super().__init__(code)
        self.code = code
        self.body = body


class QuotaExceeded(NamedTuple):
    """A request exceeds a quota: ZooKeeper warns, and executes it if the quota is soft."""

    path: str
    what: str


class SearchRefused(NamedTuple):
    """A removeRecursive was refused since too many nodes were searched in vain."""

    path: str
    session_id: int


#: What the proxy that has sent a request logs of it.
Warned: TypeAlias = QuotaExceeded | SearchRefused


class SessionChange(NamedTuple):
    """A session was opened (no former incarnation), attached or ended (no new one)."""

    session_id: int
    former: str
    incarnation: str | None
    reason: str = ""  # why it was ended, if that was no request of its client


class CarriedOver(NamedTuple):
    """All sessions of an incarnation were attached to another one at once."""

    former: str
    incarnation: str
    session_ids: Sequence[int]  # in any order: they may be very many


class Disagreement(NamedTuple):
    """Another server's digest differs from ours after the same number of entries."""

    incarnation: str
    checkpoint: int  # after so many entries
    theirs: int
    ours: int
