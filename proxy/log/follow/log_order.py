"""Turns the events of the watch on `live/` into items, in the order in which they take effect. Pure.

Each reader of the log computes the same order from the same events, by rules 1.3 to 1.5 and 2.8 of
docs/architecture.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from codec.named import new_tuple
from proxy.etcd.model import PUT, Event, KeyValue
from proxy.log.foreign import skip
from proxy.log.record import unreadable
from proxy.state.pause import NO_PAUSE, Pause
from schema.compression import size_before
from schema.entry import Entry, Written, decode_entry
from schema.errors import BadValue, ForeignKey
from schema.keys import KeyKind, Keyspace

# Bytes before compression. A long ACL, or a multi that cannot be decoded, takes 100 us for so many.
_OF_A_REQUEST = 1 << 10


class Apply(Written):
    """An entry takes effect."""

    __slots__ = ()

    def decode(self) -> Entry:
        """The entry. Raises TreeNotServable: a proxy that skipped it would have a different tree."""
        try:
            return decode_entry(self.value)
        except BadValue as error:
            raise unreadable(self.incarnation, self.number, error) from error

    def cost(self, requests: int, parts: int) -> int:
        """What a replay of the entry costs, in small requests; `parts`: those of all its multis.

        The bytes in the log do not show it: a multi of 45,000 parts may take 200 there, and half a second.
        """
        return max(requests + parts, size_before(self.value) // _OF_A_REQUEST)


class ProxyCame(NamedTuple):
    """A proxy has put its key, at this revision."""

    incarnation: str
    revision: int
    value: bytes


class ProxyGone(NamedTuple):
    """A proxy's key was deleted: nothing of this incarnation takes effect after this item."""

    incarnation: str
    revision: int


class Gap(NamedTuple):
    """An incarnation is over, and an entry of it is missing: those behind it never take effect (rule 1.5)."""

    incarnation: str
    number: int  # of the missing entry
    behind: int  # how many entries


class EntriesGone(NamedTuple):
    """Entries that had taken effect were deleted: by truncation, if the previous snapshot holds them."""

    incarnation: str
    first: int  # their numbers
    last: int
    revision: int


class RecordChanged(NamedTuple):
    """The tree's record was put, or deleted (None)."""

    value: bytes | None
    revision: int


Item = Apply | ProxyCame | ProxyGone | Gap | EntriesGone | RecordChanged


class LogOrder:
    """The position of one proxy in the log: the numbers delivered, and the entries behind a gap."""

    def __init__(self, keys: Keyspace) -> None:
        self.keys = keys
        self._parse = keys.parse
        self._delivered: dict[str, int] = {}  # the last number delivered, by incarnation
        self._waiting: dict[str, dict[int, Apply]] = {}  # by incarnation and number
        self._living: dict[str, int] = {}  # at which the proxy keys that exist were put
        self._expected: dict[str, int] = {}  # the same, of keys that no event has shown yet
        #: All events up to this etcd revision have been processed.
        self.revision = 0
        #: Incarnation and number of the entry that was delivered last, unless it was deleted since.
        self.last_entry: tuple[str, int] | None = None

    @property
    def living(self) -> Mapping[str, int]:
        """At which revision each proxy key that exists was put."""
        return self._living

    @property
    def numbers(self) -> Mapping[str, int]:
        """The last number that was delivered of each incarnation."""
        return self._delivered

    def delivered(self, incarnation: str) -> int:
        """The last number of an incarnation that was delivered."""
        return self._delivered.get(incarnation, 0)

    def knows(self, incarnation: str) -> bool:
        """Whether a proxy's key exists, according to events or `expect`."""
        return incarnation in self._living or incarnation in self._expected

    def held(self, incarnation: str) -> int:
        """How many entries of an incarnation have arrived, but wait for a predecessor."""
        return len(self._waiting.get(incarnation, ()))

    def restart(self, applied: Mapping[str, int]) -> None:
        """Continue from a loaded state, which has these numbers; `take_read` has to follow."""
        self._delivered = dict(applied)
        self._waiting.clear()
        self.revision = 0
        self.last_entry = None

    def expect(self, incarnation: str, revision: int) -> None:
        """Our own proxy key was put at `revision`. That event may be missed, the deletion's not."""
        if incarnation not in self._living:
            self._expected[incarnation] = revision

    def retain(self, applied: Mapping[str, int], items: Iterable[Item] = ()) -> None:
        """Drop the incarnations that the state has forgotten: their keys never return.

        Call it only when everything that was delivered before `items` is applied, and never from another task
        than the one that feeds events in: in the middle of `take_read` there are entries that are in no item
        yet.
        """
        if len(self._delivered) > len(applied):
            known = {*applied, *[item.incarnation for item in items if isinstance(item, Apply)]}
            for incarnation in self._delivered.keys() - known:
                del self._delivered[incarnation]
                self._waiting.pop(incarnation, None)

    def items_of(self, events: Sequence[Event]) -> list[Item]:
        """What takes effect by the events of whole revisions, which are given in their order."""
        items: list[Item] = []
        for event in events:
            pair = event.kv
            try:
                kind, incarnation, number = self._parse(pair.key)
            except ForeignKey as error:
                skip(self.keys, pair.key, error)
                continue
            if kind is KeyKind.ENTRY:
                if event.type == PUT:
                    self._entry(items, pair.mod_revision, incarnation, number, pair.value)
                elif number <= self.delivered(incarnation):
                    self._deleted(items, incarnation, number, pair.mod_revision)
            elif kind is KeyKind.PROXY:
                if event.type == PUT:
                    self._came(items, incarnation, pair)
                else:
                    self._gone(items, incarnation, pair.mod_revision)
            elif kind is KeyKind.TREE:
                items.append(RecordChanged(pair.value if event.type == PUT else None, pair.mod_revision))
        if events:
            self.revision = max(self.revision, events[-1].kv.mod_revision)
        return items

    def left_out(self, entries: Iterable[KeyValue]) -> KeyValue | None:
        """The first of these entries, which were read, that the watch should have delivered long ago.

        It is below the revision that was processed, and does not wait for a predecessor. Other proxies have
        applied it in its place, so the state that was made without it is wrong. `entries`: in order, without
        foreign keys.
        """
        for pair in entries:
            if pair.mod_revision > self.revision:
                break
            _, incarnation, number = self._parse(pair.key)
            if number == self.delivered(incarnation) + 1:
                return pair
        return None

    def take_read(
        self,
        revision: int,
        entries: Iterable[KeyValue],
        proxies: Iterable[KeyValue],
        record: KeyValue | None,
        pause: Pause = NO_PAUSE,
    ) -> list[Item]:
        """Process what was read at `revision`, because events were missed. Nothing else may be fed meanwhile.

        After an outage there can be very many entries. `entries`: at least all that were put since the
        revision reached before, or since the state that was given to `restart`. Those above `revision` are
        ignored, since the watch delivers them. `proxies` and `record`: all keys that existed at `revision`.
        No key is foreign.
        """
        items: list[Item] = []
        there: set[str] = set()
        for pair in sorted(proxies, key=lambda pair: pair.create_revision):
            incarnation = self._parse(pair.key).incarnation
            there.add(incarnation)
            if self._living.get(incarnation) != pair.create_revision:
                self._came(items, incarnation, pair)
        for pair in pause.each(pause.sorted(entries, order_of)):
            if pair.mod_revision > revision:
                break
            _, incarnation, number = self._parse(pair.key)
            self._entry(items, pair.mod_revision, incarnation, number, pair.value)
        # All entries of a proxy precede the deletion of its key, whatever its revision.
        missing = [
            name
            for name, born in (*self._living.items(), *self._expected.items())
            if name not in there and born <= revision
        ]
        for incarnation in missing:
            self._gone(items, incarnation, revision)
        for incarnation in [name for name in self._waiting if name not in there]:
            self._never(items, incarnation)
        if record is None:
            items.append(RecordChanged(None, revision))
        else:
            items.append(RecordChanged(record.value, record.mod_revision))
        self.revision = revision
        return items

    def _entry(self, items: list[Item], position: int, incarnation: str, number: int, value: bytes) -> None:
        # A higher number waits (rule 1.3), a lower one is a late copy (rule 1.4).
        following = self._delivered.get(incarnation, 0) + 1
        if number != following:
            if number > following:
                self._waiting.setdefault(incarnation, {})[number] = Apply(
                    position, incarnation, number, value
                )
            return
        items.append(new_tuple(Apply, (position, incarnation, number, value)))
        if self._waiting:
            waiting = self._waiting.get(incarnation)
            if waiting:
                while (held := waiting.pop(number + 1, None)) is not None:
                    items.append(held)
                    number += 1
                if not waiting:
                    del self._waiting[incarnation]
        self._delivered[incarnation] = number
        self.last_entry = incarnation, number

    def _deleted(self, items: list[Item], incarnation: str, number: int, revision: int) -> None:
        if self.last_entry == (incarnation, number):
            self.last_entry = None
        if items and isinstance(former := items[-1], EntriesGone):
            name, first, last, at = former
            if (name, last + 1, at) == (incarnation, number, revision):  # truncation deletes very many
                items[-1] = EntriesGone(name, first, number, at)
                return
        items.append(EntriesGone(incarnation, number, number, revision))

    def _came(self, items: list[Item], incarnation: str, pair: KeyValue) -> None:
        self._expected.pop(incarnation, None)
        self._living[incarnation] = pair.create_revision
        items.append(ProxyCame(incarnation, pair.create_revision, pair.value))

    def _gone(self, items: list[Item], incarnation: str, revision: int) -> None:
        self._living.pop(incarnation, None)
        self._expected.pop(incarnation, None)
        self._never(items, incarnation)
        items.append(ProxyGone(incarnation, revision))

    def _never(self, items: list[Item], incarnation: str) -> None:
        """What waits of an incarnation that is over never takes effect (rule 1.5)."""
        waiting = self._waiting.pop(incarnation, None)
        if waiting:
            items.append(Gap(incarnation, self.delivered(incarnation) + 1, len(waiting)))


def order_of(pair: KeyValue) -> tuple[int, bytes]:
    """The key by which entries are sorted. Those of one Txn are put in the order of their keys (rule 2.8)."""
    return pair.mod_revision, pair.key
