"""Watch events on their way to the connections that watch.

What is the same for all watchers of an event is done once: its packet in each form, and the check of each
list of identities. A run of events for the same watchers goes to each of them at once. Watchers that may not
READ the nodes are left out once for all events of a request: there may be thousands of both.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from codec.constants import KeeperState, Perms
from proxy.state.auth.scheme import Identities
from proxy.state.pause import Pause
from proxy.state.rights import OPEN, Rights, permits

_CONNECTED = int(KeeperState.SYNC_CONNECTED)
_READ = int(Perms.READ)
# Events, and characters of their paths, that go to a watcher together.
_MOST = 128
_MOST_CHARACTERS = 64 << 10
# As many watchers as are compared in the time of one step.
_PER_STEP = 32
# So much is remembered of who may READ what, in watchers.
_KEPT = 1 << 17

_Encode = Callable[[int, int, str, int], bytes]  # (type, state, path, zxid) -> a whole notification
_Verdicts = dict[int, tuple[Identities, bool]]  # by id of the list of identities, which the value keeps


class Notifications:
    """Consecutive events for the same watchers, of nodes with the same rights."""

    __slots__ = ("_packets", "_verdicts", "events", "rights", "size", "zxid")

    def __init__(
        self, kind: int, path: str, zxid: int, rights: Rights, verdicts: _Verdicts | None = None
    ) -> None:
        """The first event. `verdicts`: those that are known of the same rights."""
        self.events = [(kind, path)]
        self.size = len(path)
        self.rights = rights
        self.zxid = zxid
        self._packets: dict[_Encode, list[bytes]] = {}
        self._verdicts: _Verdicts = {} if verdicts is None else verdicts

    def add(self, kind: int, path: str) -> None:
        """Add an event, before the first watcher gets any."""
        self.events.append((kind, path))
        self.size += len(path)

    @property
    def is_full(self) -> bool:
        """Whether another event has to begin others."""
        return len(self.events) >= _MOST or self.size >= _MOST_CHARACTERS

    def are_for(self, identities: Identities) -> bool:
        """Whether a client with these identities may READ the nodes."""
        return _may_all_read(self.rights) or _may_read(self.rights, identities, self._verdicts)

    def packets(self, encode: _Encode) -> list[bytes]:
        """The events in a form of packets. All clients share the list."""
        packets = self._packets.get(encode)
        if packets is None:
            packets = [encode(kind, _CONNECTED, path, self.zxid) for kind, path in self.events]
            self._packets[encode] = packets
        return packets


def _may_all_read(rights: Rights) -> bool:
    return rights is OPEN or bool(rights.of_all & _READ)


def _may_read(rights: Rights, identities: Identities, verdicts: _Verdicts) -> bool:
    known = verdicts.get(id(identities))
    if known is None:
        known = verdicts[id(identities)] = identities, permits(rights, _READ, identities)
    return known[1]


class Watcher(Protocol):
    """A connection, as far as the watch table uses it."""

    @property
    def session_id(self) -> int:
        """The connection's session."""

    @property
    def identities(self) -> Identities:
        """Those that its client has proved."""

    def notify(self, notifications: Notifications) -> None:
        """Send watch events, unless the rights withhold the nodes from this client."""


class _Readers:
    """Which of some watchers may READ nodes with some rights. The watchers come again and again."""

    __slots__ = ("_alike", "_of", "watchers")

    def __init__(self, watchers: Collection[Watcher]) -> None:
        self.watchers = watchers
        self._alike: dict[Identities, list[Watcher]] = {}  # those with the same identities; when asked
        self._of: dict[Rights, list[Watcher]] = {}

    def of(self, rights: Rights, verdicts: _Verdicts, pause: Pause) -> list[Watcher]:
        """Not to be changed."""
        readers = self._of.get(rights)
        if readers is None:
            if not self._alike:
                for watcher in pause.each(self.watchers):
                    self._alike.setdefault(watcher.identities, []).append(watcher)
            readers = self._of[rights] = []
            for identities, some in pause.each(self._alike.items()):
                if _may_read(rights, identities, verdicts):
                    readers += some
        return readers


class Sending:
    """Sends the events of one request, each to its watchers, in their order."""

    __slots__ = ("_kept", "_next", "_pause", "_readers", "_verdicts", "_watchers", "_zxid")

    def __init__(self, zxid: int, pause: Pause) -> None:
        self._zxid = zxid
        self._pause = pause
        self._next: Notifications | None = None  # not sent yet
        self._watchers: Collection[Watcher] = ()  # theirs
        self._verdicts: dict[Rights, _Verdicts] = {}
        self._readers: dict[int, _Readers] = {}  # by id of the watchers, which the value keeps
        self._kept = 0  # what both hold, in watchers

    def add(self, watchers: Collection[Watcher], kind: int, path: str, rights: Rights) -> None:
        """Add an event for these watchers, which must not change."""
        verdicts: _Verdicts | None = None
        if watchers and not _may_all_read(rights):
            watchers, verdicts = self._judged(watchers, rights)
        if not watchers:
            return
        following = self._next
        if following is not None:
            if rights is following.rights and not following.is_full and self._are_same(watchers):
                following.add(kind, path)
                return
            self.end()
        self._next = Notifications(kind, path, self._zxid, rights, verdicts)
        self._watchers = watchers

    def _are_same(self, watchers: Collection[Watcher]) -> bool:
        if watchers is self._watchers:
            return True
        self._pause.spend(len(watchers) // _PER_STEP)
        return watchers == self._watchers

    def _judged(self, watchers: Collection[Watcher], rights: Rights) -> tuple[Collection[Watcher], _Verdicts]:
        """The watchers that may READ, and the verdicts so far. At first all: most come only once."""
        if self._kept > _KEPT:
            self._readers.clear()
            self._verdicts.clear()
            self._kept = 0
        verdicts = self._verdicts.setdefault(rights, {})
        known = self._readers.get(id(watchers))
        if known is None:
            self._readers[id(watchers)] = _Readers(watchers)
            self._kept += len(watchers)
            return watchers, verdicts
        readers = known.of(rights, verdicts, self._pause)
        self._kept += 1
        return readers, verdicts

    def end(self) -> None:
        """Send what is not sent yet."""
        notifications = self._next
        if notifications is not None:
            for watcher in self._pause.each(self._watchers):
                watcher.notify(notifications)
