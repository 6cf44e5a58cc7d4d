"""Watch events on their way to the connections that watch.

What is the same for all watchers of an event is done once: its packet in each form, and the check of each
list of identities. A run of events for the same watchers goes to each of them at once.
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

    def followed(self, kind: int, path: str, zxid: int, rights: Rights) -> "Notifications":
        """Others, which begin with this event."""
        return Notifications(kind, path, zxid, rights, self._verdicts if rights is self.rights else None)

    def are_for(self, identities: Identities) -> bool:
        """Whether a client with these identities may READ the nodes."""
        rights = self.rights
        if rights is OPEN or rights.of_all & _READ:
            return True
        known = self._verdicts.get(id(identities))
        if known is None:
            known = self._verdicts[id(identities)] = identities, permits(rights, _READ, identities)
        return known[1]

    def packets(self, encode: _Encode) -> list[bytes]:
        """The events in a form of packets. All clients share the list."""
        packets = self._packets.get(encode)
        if packets is None:
            packets = [encode(kind, _CONNECTED, path, self.zxid) for kind, path in self.events]
            self._packets[encode] = packets
        return packets


class Watcher(Protocol):
    """A connection, as far as the watch table uses it."""

    @property
    def session_id(self) -> int:
        """The connection's session."""

    def notify(self, notifications: Notifications) -> None:
        """Send watch events, unless the rights withhold the nodes from this client."""


class Sending:
    """Sends the events of one request, each to its watchers, in their order."""

    __slots__ = ("_next", "_pause", "_watchers", "_zxid")

    def __init__(self, zxid: int, pause: Pause) -> None:
        self._zxid = zxid
        self._pause = pause
        self._next: Notifications | None = None  # not sent yet
        self._watchers: Collection[Watcher] = ()  # theirs

    def add(self, watchers: Collection[Watcher], kind: int, path: str, rights: Rights) -> None:
        """Add an event for these watchers, which must not change."""
        if not watchers:
            return
        following = self._next
        if following is None:
            following = Notifications(kind, path, self._zxid, rights)
        else:
            self._pause.spend(len(watchers) // _PER_STEP)
            if rights is following.rights and not following.is_full and watchers == self._watchers:
                following.add(kind, path)
                return
            self.end()
            following = following.followed(kind, path, self._zxid, rights)
        self._next, self._watchers = following, watchers

    def end(self) -> None:
        """Send what is not sent yet."""
        notifications = self._next
        if notifications is not None:
            for watcher in self._pause.each(self._watchers):
                watcher.notify(notifications)
