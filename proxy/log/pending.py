"""A request on its way through the log, from the moment it is submitted until its outcome is known.

Pure. The frontend subclasses `Pending` to keep what it needs for the reply.
"""

from collections.abc import Callable
from typing import Any

from schema.entry import Identities


class Pending:
    """One request for the log.

    `done(pending, zxid, err, body)` is called exactly once, at the moment the request is applied, in the
    order in which the session's requests were submitted. `err` is what the state machine answered, or
    SYSTEM_ERROR (etcd has no space), BAD_ARGUMENTS (too large for etcd), CONNECTION_LOSS (the outcome is not
    known, because this proxy loaded a snapshot that contains it).
    """

    __slots__ = ("body", "done", "fields", "identities", "kind", "opcode", "session_id")

    def __init__(
        self,
        kind: int,
        session_id: int,
        opcode: int,
        identities: Identities,
        body: bytes,
        done: Callable[["Pending", int, int, bytes], None],
        fields: Any = None,
    ) -> None:
        """`kind` to `body` are those of `schema.entry.Request`. `fields`: `body` decoded, None if not yet."""
        self.kind = kind
        self.session_id = session_id
        self.opcode = opcode
        self.identities = identities
        self.body = body
        self.fields = fields
        self.done = done
