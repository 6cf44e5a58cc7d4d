"""A request for the log, from the moment it is submitted until its outcome is known.

Pure. Each part that submits requests gives them a callback, which gets the outcome.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from schema.entry import Identities

Callback: TypeAlias = Callable[[Any, int, int, bytes], None]
"""Takes a request with its outcome: the zxid, the error, the reply's body."""


def ignore(_pending: "Pending", _zxid: int, _err: int, _body: bytes) -> None:
    """The outcome has no consequence here."""


class Pending:
    """One request for the log."""

    __slots__ = ("body", "callback", "fields", "identities", "kind", "opcode", "session_id")

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
        callback: Callback = ignore,
    ) -> None:
        """`kind` to `body` are those of `schema.entry.Request`. `fields`: `body` decoded, None if not yet."""
        self.kind = kind
        self.session_id = session_id
        self.opcode = opcode
        self.identities = identities
        self.body = body
        self.fields = fields
        self.callback = callback

    def answer(self, zxid: int, err: int, body: bytes = b"") -> None:
        """Report the outcome, when the request is applied or refused.

        It is called exactly once, in the order in which the session's requests were submitted. `err` is what
        the state machine answered, or SYSTEM_ERROR (etcd has no space), BAD_ARGUMENTS (too large for etcd),
        THROTTLED_OP (a budget is spent), CONNECTION_LOSS (the outcome is unknown, because this proxy loaded a
        snapshot that contains it). The callback handles what ends only a connection. All else that it raises
        ends the process.
        """
        self.callback(self, zxid, err, body)


class CallbackRequest(Pending):
    """A request of the proxy itself. It is not sent if it is no longer wanted."""

    __slots__ = ("_is_wanted",)

    def __init__(
        self,
        kind: int,
        body: bytes,
        callback: Callback,
        is_wanted: Callable[[], bool] = lambda: True,
        *,
        session_id: int = 0,
    ) -> None:
        super().__init__(kind, session_id, 0, (), body, callback=callback)
        self._is_wanted = is_wanted

    @property
    def is_wanted(self) -> bool:  # type: ignore[override]
        """As the base class."""
        return self._is_wanted()
