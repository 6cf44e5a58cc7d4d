"""Follows the log in etcd beside all proxies: the order of requests and the state that each must come to.

It reads etcd past the relays and feeds `proof.simulation.oracle`, which has the order of entries by its own
code and the state by the machine that proxies run as well. What became of requests without an answer, and
when sessions ended, is known from here.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proof.simulation.clients import Clock
from proof.simulation.oracle import Oracle
from proof.simulation.proxies import PREFIX
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import (
    DELETE,
    PUT,
    EtcdError,
    Event,
    EventKeyValue,
    KeyValue,
    WatchCompacted,
    WatchMessage,
)
from proxy.log.catch_up import Caught, Truncated, catch_up
from proxy.log.start import Loaded, load
from schema.errors import ForeignKey
from schema.keys import Keyspace, Kind

_RETRY = 0.2  # seconds


class _Happened(NamedTuple):
    """An event as a watch would bring it."""

    type: int
    kv: EventKeyValue


class Observer:
    """One follower of the log."""

    def __init__(self, clock: Clock, endpoints: Sequence[str]) -> None:
        self._clock = clock
        self._etcd = EtcdClient(endpoints)
        self._keys = Keyspace(PREFIX)
        self._revision = 0
        self._living: dict[str, bytes] = {}  # keys by incarnation
        self._gone: set[str] = set()
        #: The later incarnations of the process that had one, of all proxies.
        self.successors: Callable[[str], Sequence[str]] = lambda _incarnation: ()
        #: Called with a session that ends without its client's wish.
        self.on_expiry: Callable[[int], None] = lambda _session: None
        #: Sessions that ended because their proxy's lease had: their time counts from its keep-alives.
        self.excused: set[int] = set()
        #: Breaks of the watch.
        self.breaks = 0
        #: A part of the log was truncated before it was seen.
        self.lost = False
        self.oracle = Oracle(clock, 0)

    async def start(self) -> None:
        """Load the tree as it is. Raises TreeNotServable, EtcdError."""
        self._stand_at(await load(self._etcd, self._keys, make=False))

    async def run(self) -> None:
        """Follow for ever."""
        while True:
            try:
                await self._etcd.watch(self._keys.live, self._keys.live_end, self._revision, self._take)
            except (WatchCompacted, EtcdError):
                self.breaks += 1
            repaired = False
            while not repaired:
                await asyncio.sleep(_RETRY)
                repaired = await self._repaired()

    def begin(self) -> None:
        """Another history begins."""
        self.oracle.forget()
        self.excused.clear()
        self.lost = False

    async def close(self) -> None:
        """End."""
        await self._etcd.close()

    def _stand_at(self, loaded: Loaded) -> None:
        self.oracle = Oracle(self._clock, loaded.cluster_id)
        self.oracle.listeners.expired = self.expired
        self.oracle.begin(loaded.machine)
        self._take_in(loaded.caught)
        self.oracle.forget()

    async def _repaired(self) -> bool:
        """Make up for what a break of the watch has left out; whether that was possible."""
        try:
            self._take_in(await catch_up(self._etcd, self._keys, self.oracle.machine.applied, self._revision))
        except Truncated:
            self.lost = True
            self._stand_at(await load(self._etcd, self._keys, make=False))
        except EtcdError:
            return False
        return True

    def _take(self, message: WatchMessage) -> None:
        events = [event for event in message.events if event.kv.mod_revision > self._revision]
        if not events:
            return
        self._revision = events[-1].kv.mod_revision
        self._note_proxies(events)
        self.oracle.committed(list(events))

    def _take_in(self, caught: Caught) -> None:
        """Entries and then deletions: nothing was appended behind the end of an incarnation."""
        living = {pair.key for pair in caught.proxies}
        gone = [
            _Happened(DELETE, KeyValue(key, b"", 0, caught.revision, 0, 0))
            for key in self._living.values()
            if key not in living
        ]
        came = [_Happened(PUT, pair) for pair in caught.proxies]
        # What an incarnation that is over has left behind a gap never counts.
        over = self.oracle.over
        entries = [
            _Happened(PUT, pair)
            for pair in caught.entries
            if self._keys.parse(pair.key).incarnation not in over
        ]
        self._note_proxies([*gone, *came])
        self._revision = max(self._revision, caught.revision)
        self.oracle.committed([*came, *entries, *gone])

    def _note_proxies(self, events: Sequence[Event]) -> None:
        for event in events:
            try:
                kind, incarnation, _ = self._keys.parse(event.kv.key)
            except ForeignKey:
                continue
            if kind is not Kind.PROXY:
                continue
            if event.type == DELETE:
                self.note_gone(incarnation)
            else:
                self._living[incarnation] = event.kv.key

    def note_gone(self, incarnation: str) -> None:
        """A proxy's key is gone."""
        self._living.pop(incarnation, None)
        self._gone.add(incarnation)

    def expired(self, session: int, holder: str) -> None:
        """The log ends a session, which its sender expects to be held by an incarnation."""
        # What a new incarnation appends first is that it takes over the sessions of the old one. Where it has
        # appended anything, they are not without a proxy.
        applied = self.oracle.machine.applied
        if holder in self._gone and not any(applied.get(name) for name in self.successors(holder)):
            self.excused.add(session)
        self.on_expiry(session)
