"""The outcome of a request."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """What became of a request: 0 or an ErrorCode, and the body of its reply where one is wanted."""

    err: int
    body: bytes


DONE = Outcome(0, b"")


class SessionChange(NamedTuple):
    """A session was opened (no former incarnation), attached, carried over or ended (no new one)."""

    session_id: int
    former: str
    incarnation: str | None


class Disagreement(NamedTuple):
    """Another server's digest is not ours of the same moment."""

    incarnation: str
    checkpoint: int  # after so many entries
    theirs: int
    ours: int
