"""Known bugs of etcd, as faults: watches that leave out or repeat events, and old answers.

etcd's other faults (`Troubles`) break no promise of etcd's. These do. docs/etcd-bugs.md says what zketcd
does about each. The numbers are those of etcd's issues.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from lab.fakes.etcd import FakeEtcd
from proxy.etcd.model import WatchMessage

_REMEMBERED = 20  # messages of a watch that may be repeated


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

    def told(
        self, former: deque[WatchMessage], host: str, messages: list[WatchMessage]
    ) -> list[WatchMessage]:
        """What a watch sends in place of its messages. `former`: the last that it has sent (`remembered`)."""
        rng, sent = self._random, list[WatchMessage]()
        for message in messages:
            events = message.events
            if events and self.leave_out and rng.random() < self.leave_out:
                self.on_left_out(host)
                continue
            if events and self.repeat and rng.random() < self.repeat and former:
                again = list(former)[-rng.randint(1, len(former)) :]
                if rng.random() < 0.5:
                    sent += again
                else:  # in one message with the new ones
                    repeated = [event for old in again for event in old.events]
                    message = WatchMessage(message.revision, [*repeated, *events])
            if events:
                former.append(WatchMessage(message.revision, events))
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
    def reading(self, store: FakeEtcd, behind: int, stands_at: int) -> Iterator[None]:
        """The store as a linearizable read of a member sees it.

        `stands_at`: the revision that all its reads have. `behind`: the revisions by which they may be old.
        """
        newest = store.revision
        if stands_at:
            store.revision = max(store.compacted, stands_at)
        elif behind and self._random.random() < self.old_read:
            store.revision = max(store.compacted, newest - self._random.randint(1, behind), 1)
        try:
            yield
        finally:
            store.revision = newest


def remembered() -> deque[WatchMessage]:
    """Of what a watch has sent, for `EtcdBugs.told`."""
    return deque(maxlen=_REMEMBERED)
