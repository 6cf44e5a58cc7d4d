"""Known bugs of etcd, as faults: watches that leave out or repeat events, and old answers.

etcd's other faults (`Troubles`) break no promise of etcd's. These do. docs/reliability.md says what zketcd
does about each. The numbers are those of etcd's issues.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Protocol

from lab.fakes.etcd import FakeEtcd
from proxy.etcd.model import WatchMessage

_REMEMBERED = 20  # messages of a watch that may be repeated


class Member(Protocol):
    """A member, as far as it may be wrong."""

    #: So many revisions its linearizable reads are behind; 0: none.
    behind: int
    #: The revision that all its linearizable reads have; 0: the newest one.
    stands_at: int


class Watched(Protocol):
    """A watch stream."""

    told: deque[WatchMessage]


class EtcdBugs:
    """What etcd does wrong at present; a fault sets it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        #: Chances, from 0 to 1: that a watch leaves out a revision (17529), sends former events again
        #: (15271), begins with older revisions than it was asked for (20221), and that a read is old (20418).
        self.leave_out = 0.0
        self.repeat = 0.0
        self.begin_early = 0.0
        self.old_read = 0.0
        #: Called when events are left out of a watch of this host.
        self.on_left_out: Callable[[str], None] = lambda _host: None
        #: Called when a new process begins on a host: nothing was left out for it yet.
        self.on_start: Callable[[str], None] = lambda _host: None

    def told(self, watch: Watched, host: str, messages: list[WatchMessage]) -> list[WatchMessage]:
        """What a watch sends in place of its messages."""
        rng, sent = self._random, list[WatchMessage]()
        for message in messages:
            events = message.events
            if events and self.leave_out and rng.random() < self.leave_out:
                self.on_left_out(host)
                continue
            if events and self.repeat and rng.random() < self.repeat and watch.told:
                again = list(watch.told)[-rng.randint(1, len(watch.told)) :]
                if rng.random() < 0.5:
                    sent += again
                else:  # in one message with the new ones
                    former = [event for old in again for event in old.events]
                    message = WatchMessage(message.revision, [*former, *events])
            if events:
                watch.told.append(WatchMessage(message.revision, events))
            sent.append(message)
        return sent

    def is_lost(self) -> bool:
        """Whether a compaction takes an event that was not sent yet."""
        return self._random.random() < 0.5

    def first_revision(self, asked: int, compacted: int) -> int:
        """The revision with which a watch begins."""
        if asked and self.begin_early and self._random.random() < self.begin_early:
            return max(min(asked, compacted + 1), asked - self._random.choice((1, 5, 50)))
        return asked

    @contextmanager
    def reading(self, store: FakeEtcd, member: Member) -> Iterator[None]:
        """The store as a member's read sees it."""
        newest = store.revision
        if member.stands_at:
            store.revision = max(store.compacted, member.stands_at)
        elif member.behind and self._random.random() < self.old_read:
            store.revision = max(store.compacted, newest - self._random.randint(1, member.behind), 1)
        try:
            yield
        finally:
            store.revision = newest


def remembered() -> deque[WatchMessage]:
    """What a watch has sent, for `Watched`."""
    return deque(maxlen=_REMEMBERED)
