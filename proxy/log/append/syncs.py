"""The syncs that are in no entry, and when they may be answered. Pure.

A sync is answered once this proxy has applied everything that any client had seen before the sync was sent.
Two things prove that:

* A read of the log's head that began after the sync arrived (`head_reader`), once the entries that it has
  found are applied. All syncs that wait when a read begins share it. A later one needs the next read, since
  etcd may have answered this one before.
* An entry of this proxy that was sent after the sync arrived: everything before it is applied before it.

Syncs are taken only while no entry of this proxy is on its way (`Outbox.set_syncs_apart`). So each entry that
is on its way was sent after all syncs that wait here, and they are answered before it is applied. That keeps
the order of a session's requests.
"""

from collections.abc import Iterable
from typing import NamedTuple

from codec.constants import OpCode
from codec.jute import pack_string
from proxy.log.append.pending import Callback, Pending, ignore
from schema.entry import Kind

_SYNC = int(OpCode.SYNC)
#: The path of the root, as the body of a sync.
ROOT_PATH = pack_string("/")

#: Requests without an entry, in order: syncs, and refused requests that follow them, with their errors.
Asked = list[tuple[Pending, int]]


class Proven(NamedTuple):
    """An item for the applier: all that these syncs have to wait for was delivered before it."""

    asked: Asked
    began: float  # when the read began, by the clock's perf_counter


def sync_entry(done: Callback = ignore) -> Pending:
    """A sync of no session, for its entry: like a client's it changes nothing."""
    return Pending(Kind.CLIENT, 0, _SYNC, (), ROOT_PATH, callback=done)


def needs_no_entry(pending: Pending) -> bool:
    """Whether a read can take the place of its entry. A sync of no session is sent for its entry."""
    return pending.opcode == _SYNC and pending.kind == Kind.CLIENT and pending.session_id != 0


class Syncs:
    """The syncs of one proxy that are in no entry and have no answer, in the order of their arrival."""

    def __init__(self) -> None:
        #: Those of the read that is under way.
        self.asked: Asked = []
        #: Those that came later.
        self.waiting: Asked = []

    def __len__(self) -> int:
        return len(self.asked) + len(self.waiting)

    def add(self, requests: Iterable[Pending]) -> None:
        """Take syncs."""
        self.waiting += [(pending, 0) for pending in requests]

    def refuse(self, pending: Pending, error: int) -> None:
        """Take a refused request, which is answered after the syncs that were taken before it."""
        (self.waiting or self.asked).append((pending, error))

    def ask(self) -> Asked | None:
        """Begin a read: the syncs that it is for; None if none waits or another read is under way."""
        if self.asked or not self.waiting:
            return None
        self.asked, self.waiting = self.waiting, []
        return self.asked

    def proven(self, asked: Asked) -> Asked:
        """Remove and return the syncs of a read, unless they were removed before."""
        if asked is not self.asked:
            return []
        self.asked = []
        return asked

    def take_all(self) -> Asked:
        """Remove and return all of them."""
        found = self.asked + self.waiting
        self.asked, self.waiting = [], []
        return found
