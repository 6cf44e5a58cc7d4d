"""Where a replicated database lies in ZooKeeper, and its transactions as lists of requests. Pure.

Below the root: `metadata/TABLE` (the snapshot: definitions as of max_log_ptr), `log/query-N` with `try` or
`committed`, `active`, `finished` and `synced`, `counter`, `counter_lock`, `max_log_ptr`, `logs_to_keep`,
`replicas/NAME` with `log_ptr`, `digest` and `active`, and `sessions/NAME`, the fence: a new session of a
replica gives it another version, and each transaction checks the version of its own session. So a transaction
of an earlier session that arrives late is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from codec.client import Request, check, create, delete, set_data
from codec.constants import CreateMode

Parts = list[Request[Any]]

_ENTRY = "query-"
_COUNTER = "cnt-"
OK, FAILED = b"0", b"1"
#: log_ptr of a replica that has never recovered.
NEW = 0
#: Part of `lock` and of `commit_initial` that may fail: the lock is taken, the try was cancelled.
LOCK_PART, TRY_PART = 0, 1


class Layout:
    """The paths of one database, and its transactions."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.metadata = f"{root}/metadata"
        self.log = f"{root}/log"
        self.counter = f"{root}/counter"
        self.lock_node = f"{root}/counter_lock"
        self.max_log_ptr = f"{root}/max_log_ptr"
        self.logs_to_keep = f"{root}/logs_to_keep"
        self.replicas = f"{root}/replicas"
        self.sessions = f"{root}/sessions"

    def entry(self, number: int) -> str:
        """The node of an entry."""
        return f"{self.log}/{_ENTRY}{number:010d}"

    def active(self, number: int, name: str) -> str:
        """The node of a replica that is applying an entry."""
        return f"{self.entry(number)}/active/{name}"

    def table(self, name: str) -> str:
        """The node of a table's definition."""
        return f"{self.metadata}/{name}"

    def replica(self, name: str) -> str:
        """The node of a replica."""
        return f"{self.replicas}/{name}"

    def session(self, name: str) -> str:
        """The fence of a replica."""
        return f"{self.sessions}/{name}"

    def make_database(self, logs_to_keep: int) -> Parts:
        """Everything below an empty root. The first number is spent: 0 means a replica that is new."""
        first = f"{self.counter}/{_COUNTER}"
        return [
            create(self.log),
            create(self.replicas),
            create(self.sessions),
            create(self.metadata),
            create(self.counter),
            create(first, mode=CreateMode.EPHEMERAL_SEQUENTIAL),
            delete(f"{first}{0:010d}"),
            create(self.max_log_ptr, b"1"),
            create(self.logs_to_keep, str(logs_to_keep).encode()),
        ]

    def make_replica(self, name: str, log_version: int) -> Parts:
        """A replica, while max_log_ptr has this version."""
        return [
            create(self.session(name)),
            create(self.replica(name)),
            create(f"{self.replica(name)}/log_ptr", str(NEW).encode()),
            create(f"{self.replica(name)}/digest", b"0"),
            check(self.max_log_ptr, log_version),
        ]

    def lock(self, name: str) -> Parts:
        """Take the lock and a number. Part LOCK_PART fails if another has it."""
        return [
            create(self.lock_node, name.encode(), CreateMode.EPHEMERAL),
            create(f"{self.counter}/{_COUNTER}", mode=CreateMode.EPHEMERAL_SEQUENTIAL),
        ]

    def append(self, fence: Request[None], number: int, counter: str, name: str, text: bytes) -> Parts:
        """The entry, and the lock given back. An entry without text is committed at once: it does nothing."""
        node = self.entry(number)
        if text:
            mark = create(f"{node}/try", name.encode(), CreateMode.EPHEMERAL)
        else:
            mark = create(f"{node}/committed", name.encode())
        return [
            fence,
            create(node, text),
            mark,
            delete(counter),
            delete(self.lock_node),
            create(f"{node}/active"),
            create(f"{node}/finished"),
            create(f"{node}/synced"),
        ]

    def commit_initial(
        self, fence: Request[None], number: int, name: str, metadata: Parts, digest: str
    ) -> Parts:
        """The initiator applies its entry. Part TRY_PART fails if another replica has cancelled it."""
        node = self.entry(number)
        return [
            fence,
            delete(f"{node}/try"),
            create(f"{node}/committed", name.encode()),
            set_data(self.max_log_ptr, str(number).encode()),
            *metadata,
            *self._applied(number, name, digest),
        ]

    def commit_secondary(self, fence: Request[None], number: int, name: str, digest: str) -> Parts:
        """Another replica has applied an entry."""
        return [fence, *self._applied(number, name, digest)]

    def roll_back(self, fence: Request[None], number: int, name: str) -> Parts:
        """The initiator could not run its query: no replica will. Part TRY_PART as in `commit_initial`."""
        node = self.entry(number)
        return [fence, delete(f"{node}/try"), *self._finished(number, name, FAILED)]

    def recover(self, fence: Request[None], number: int, name: str, digest: str) -> Parts:
        """A replica has taken the snapshot as of entry `number`."""
        node = self.replica(name)
        return [
            fence,
            set_data(f"{node}/log_ptr", str(number).encode()),
            set_data(f"{node}/digest", digest.encode()),
        ]

    def remove(self, number: int, finished: Sequence[str]) -> Parts:
        """What is left of an entry after its status nodes."""
        node = self.entry(number)
        return [
            *(delete(f"{node}/finished/{name}") for name in finished),
            delete(f"{node}/finished"),
            delete(node),
        ]

    def metadata_of(self, before: Mapping[str, str], changes: Mapping[str, str | None]) -> Parts:
        """What a query changes in the snapshot."""
        parts: Parts = []
        for name, definition in changes.items():
            if definition is None:
                parts.append(delete(self.table(name)))
            elif name in before:
                parts.append(set_data(self.table(name), definition.encode()))
            else:
                parts.append(create(self.table(name), definition.encode()))
        return parts

    def _applied(self, number: int, name: str, digest: str) -> Parts:
        node = self.replica(name)
        return [
            set_data(f"{node}/log_ptr", str(number).encode()),
            set_data(f"{node}/digest", digest.encode()),
            *self._finished(number, name, OK),
        ]

    def _finished(self, number: int, name: str, status: bytes) -> Parts:
        return [
            delete(self.active(number, name)),
            create(f"{self.entry(number)}/finished/{name}", status),
        ]


def number_of(name: str) -> int:
    """The number at the end of a sequential node's name or path. Raises ValueError."""
    return int(name[-10:])
