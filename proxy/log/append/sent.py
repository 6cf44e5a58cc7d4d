"""An entry from when it is sent until its outcome is known: its form, its stage, and what changes them. Pure.

The form is how the entry is put into etcd. Only a refusal changes it, and only while etcd's answer counts: in
the stage SENT. `Outbox` looks up both tables, and nothing else sets `Sent.form` or `Sent.stage`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from proxy.log.append.pending import Pending
from schema.entry import EntryWriter


class Learned(Enum):
    """What this proxy learns about an entry."""

    NO_SPACE = "etcd refuses it, since its quota is used up"
    TOO_LARGE = "etcd refuses it as too large, and its number has to be filled"
    FILLED = "etcd's answer says that its number is filled: the entry, or its replacement, is in the log"
    DECIDED = "the stream has shown the outcome, or the incarnation is over"

    __hash__ = object.__hash__  # an Enum's own is written in Python, and there is a look-up for each entry


class Form(Enum):
    """How an entry is put into etcd, and with which of its requests."""

    DIRECT = "a put; etcd refuses it while its quota is used up"
    TRIAL = "the same while the quota is used up, of one request: it asks whether etcd has space again"
    NESTED = "a put in an inner Txn, which the quota check ignores: it has no request that takes space"
    REPLACEMENT = "nested, in place of what etcd refused: only the requests that take no space"
    EMPTY = "nested, in place of a replacement that etcd refused: none of the requests"

    @property
    def is_nested(self) -> bool:
        """Whether the put is in an inner Txn, which etcd's quota check ignores."""
        return self is not _DIRECT and self is not _TRIAL


_DIRECT = Form.DIRECT
_TRIAL = Form.TRIAL

FORMS = {
    Form.DIRECT: {Learned.NO_SPACE: Form.REPLACEMENT, Learned.TOO_LARGE: Form.REPLACEMENT},
    Form.TRIAL: {Learned.NO_SPACE: Form.REPLACEMENT, Learned.TOO_LARGE: Form.REPLACEMENT},
    Form.NESTED: {Learned.TOO_LARGE: Form.REPLACEMENT},
    Form.REPLACEMENT: {Learned.TOO_LARGE: Form.EMPTY},
    Form.EMPTY: {Learned.TOO_LARGE: Form.EMPTY},
}
"""The form after each refusal. What is not here cannot happen: a nested entry that finds no space is sent
again as it is.
"""


class Stage(Enum):
    """What is known about an entry."""

    SENT = "etcd has not answered for certain: it is sent again"
    APPENDED = "its number is filled, and the stream has not shown the outcome yet"
    OVER = "the outcome is known, or the requests belong to the next incarnation"

    __hash__ = object.__hash__  # an Enum's own is written in Python, and there is a look-up for each entry


STAGES = {
    Stage.SENT: {Learned.FILLED: Stage.APPENDED, Learned.DECIDED: Stage.OVER},
    Stage.APPENDED: {Learned.DECIDED: Stage.OVER},
    Stage.OVER: {Learned.FILLED: Stage.OVER},  # the stream may be faster than the answer
}
"""The stage after what else is learned. What is not here cannot happen."""

_OVER = Stage.OVER


class EntryHeader(NamedTuple):
    """The fields of an entry besides its requests."""

    clock: int  # milliseconds since 1970
    rules: int
    checkpoint: int
    digest: int

    def finish(self, writer: EntryWriter) -> bytes:
        """The entry with these fields, and the requests that were written."""
        return writer.finish(*self)


@dataclass(slots=True, eq=False)
class Sent:
    """A number in use: the entry that was sent under it, until the stream has shown the outcome."""

    number: int
    header: EntryHeader
    original: bytes  # the entry as it was sent first
    size: int  # its bytes before compression
    requests: list[Pending]
    form: Form
    stage: Stage = Stage.SENT
    value: bytes = b""  # the entry as it is sent now: the same, or its replacement
    kept: Sequence[bool] = ()  # which requests are in the replacement
    error: int = 0  # the answer to those that are not in the replacement
    attempts: int = 0
    began: float = 0.0  # when it was sent, to the combiner or to etcd, by the appender's clock
    # Requests refused without an entry; they follow this entry in the order of their sessions.
    after: list[tuple[Pending, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = self.original

    @property
    def can_be_combined(self) -> bool:
        """Whether it may be in a Txn with other proxies' entries: not while etcd's quota is used up."""
        return self.form is _DIRECT

    @property
    def is_over(self) -> bool:
        """Whether the stage is OVER: no attempt is needed any more."""
        return self.stage is _OVER
