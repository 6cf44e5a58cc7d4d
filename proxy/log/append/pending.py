"""A request for the log, from the moment it is submitted until its outcome is known.

Pure. Each part that submits requests has a subclass whose `applied` reacts to the outcome.
"""

import logging
from collections.abc import Callable
from typing import Any

from schema.entry import Identities

log = logging.getLogger(__name__)


class Pending:
    """One request for the log."""

    __slots__ = ("body", "fields", "identities", "kind", "opcode", "session_id")

    #: Whether a client still waits for it. If not, it is not sent.
    is_wanted = True

    def __init__(
        self,
        kind: int,
        session_id: int,
        opcode: int,
        identities: Identities,
        body: bytes,
        fields: Any = None,
    ) -> None:
        """`kind` to `body` are those of `schema.entry.Request`. `fields`: `body` decoded, None if not yet."""
        self.kind = kind
        self.session_id = session_id
        self.opcode = opcode
        self.identities = identities
        self.body = body
        self.fields = fields

    def answer(self, zxid: int, err: int, body: bytes = b"") -> None:
        """Report the outcome. An exception is logged, so that other requests are not lost."""
        try:
            self.applied(zxid, err, body)
        except Exception:
            log.exception("cannot make the reply to a request of session 0x%x", self.session_id)

    def applied(self, zxid: int, err: int, body: bytes) -> None:
        """React to the outcome, when the request is applied. The base class does nothing.

        It is called exactly once, in the order in which the session's requests were submitted. `err` is what
        the state machine answered, or SYSTEM_ERROR (etcd has no space), BAD_ARGUMENTS (too large for etcd),
        CONNECTION_LOSS (the outcome is unknown, because this proxy loaded a snapshot that contains it).
        """


class CallbackRequest(Pending):
    """A request whose outcome a function takes: `callback(pending, zxid, err, body)`."""

    __slots__ = ("_is_wanted", "callback")

    def __init__(
        self,
        kind: int,
        session_id: int,
        opcode: int,
        identities: Identities,
        body: bytes,
        callback: Callable[[Pending, int, int, bytes], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(kind, session_id, opcode, identities, body)
        self.callback = callback
        self._is_wanted = is_wanted

    @property
    def is_wanted(self) -> bool:  # type: ignore[override]
        """As the base class."""
        return self._is_wanted()

    def applied(self, zxid: int, err: int, body: bytes) -> None:
        """As the base class."""
        self.callback(self, zxid, err, body)
