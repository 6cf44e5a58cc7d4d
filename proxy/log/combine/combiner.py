"""Gathers the entries of several proxies, and appends them in one Txn."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, EtcdError, Put, Txn, TxnResult
from proxy.log.combine.messages import MOST_BYTES
from proxy.log.context import txns_in_flight
from proxy.log.status import Stats
from proxy.support.environment import Clock
from schema.keys import Keyspace

_MOST_ENTRIES = 40  # of a Txn, whose compares and puts etcd's --max-txn-ops (128) bounds
_MOST_TOGETHER = 1 << 20  # bytes of a Txn, which etcd's --max-request-bytes (1.5 MiB) bounds
_TIMEOUT = 1.0  # seconds
_REMEMBERED = 3  # Txns, whose proxies are expected in the next one
_LEAST_WAIT = 0.001  # seconds; the loop's timers are no finer
_LONGEST_WAIT = 0.02  # seconds
_MOST_IN_FLIGHT = 8  # Txns


class Offer(NamedTuple):
    """An entry that its proxy wants to have appended."""

    incarnation: str
    revision: int  # at which the proxy's key was put
    number: int
    value: bytes
    refused: Callable[[], None]  # called if it may not be in the log: its proxy appends it itself
    # Called with etcd's answer and the seconds that it took, if it is in the log.
    appended: Callable[[TxnResult, float], None] = lambda _answer, _seconds: None


def txn_of_all(keys: Keyspace, offers: Iterable[Offer]) -> Txn:
    """The Txn that appends entries, as `Incarnation.txn_of` would each of them, or none if one cannot be.

    They get one mod_revision, and are put in the order of their keys: a watch delivers them in the order of
    the operations, and a range in that of the keys.
    """
    entries = sorted((keys.entry(offer.incarnation, offer.number), offer.value) for offer in offers)
    proxies = {keys.proxy(offer.incarnation): offer.revision for offer in offers}
    compares = [Compare(key, revision) for key, revision in proxies.items()]
    compares += [Compare(key, 0) for key, _ in entries]
    return Txn(tuple(compares), tuple(Put(key, value) for key, value in entries))


class Combiner:
    """Appends entries together: those that come while a Txn is in flight, and a little longer.

    Clients wait for their answers, and send their next requests when they have them. So the proxies whose
    entries were in one Txn are soon here with their next entries. A Txn waits for the proxies of the last
    few, but no longer than a Txn takes.
    """

    def __init__(self, etcd: Etcd, keys: Keyspace, clock: Clock, stats: Stats) -> None:
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], Offer] = {}
        self._of: Counter[str] = Counter()  # how many wait, by incarnation
        self._bytes = 0
        self._since = 0.0  # when the first of them came
        self._recent: deque[set[str]] = deque(maxlen=_REMEMBERED)
        self._in_flight: list[set[str]] = []  # the proxies of each Txn
        self._round_trip = 0.003  # seconds, smoothed
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    def add(self, offer: Offer) -> None:
        """Append an entry with the next Txn."""
        if not self._waiting:
            self._since = self._clock.perf_counter()
        key = offer.incarnation, offer.number
        if key in self._waiting:
            return
        self._waiting[key] = offer
        self._of[offer.incarnation] += 1
        self._bytes += len(offer.value)
        if not self._is_scheduled:  # what the loop has read in one turn goes together
            self._is_scheduled = True
            self._loop.call_soon(self._go_on)

    def waiting_of(self, incarnation: str) -> int:
        """How many entries of a proxy wait."""
        return self._of[incarnation]

    def forget(self, incarnation: str) -> None:
        """Do not wait for a proxy, nor append what it has offered: its connection or incarnation is over."""
        for proxies in self._recent:
            proxies.discard(incarnation)
        del self._of[incarnation]
        for key in [key for key in self._waiting if key[0] == incarnation]:
            self._bytes -= len(self._waiting.pop(key).value)

    def close(self) -> None:
        """Append nothing more. The proxies append themselves what waits."""
        waiting, self._waiting = self._waiting, {}
        self._of.clear()
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for offer in waiting.values():
            offer.refused()

    def _go_on(self) -> None:
        self._is_scheduled = False
        self._send_what_is_ready()

    def _waited(self) -> None:
        self._timer = None
        # A proxy that could have come, but did not, is not waited for again until it does.
        came = self._here().union(*self._in_flight)
        for proxies in self._recent:
            proxies &= came
        self._send_what_is_ready(has_waited=True)

    def _send_what_is_ready(self, *, has_waited: bool = False) -> None:
        while self._waiting and len(self._in_flight) < txns_in_flight(self._round_trip, 1, _MOST_IN_FLIGHT):
            if not has_waited and not self._is_complete():
                wait = self._since + min(self._round_trip, _LONGEST_WAIT) - self._clock.perf_counter()
                if wait > 0:
                    if self._timer is None:
                        self._timer = self._loop.call_later(max(wait, _LEAST_WAIT), self._waited)
                    return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._send()

    def _is_complete(self) -> bool:
        """Whether all proxies that are expected are here, or as much as a Txn can take."""
        if len(self._waiting) >= _MOST_ENTRIES or self._bytes >= _MOST_TOGETHER - MOST_BYTES:
            return True
        here = self._here()
        return all(proxies <= here for proxies in self._recent)

    def _here(self) -> set[str]:
        """The proxies whose entries wait."""
        return {incarnation for incarnation, _ in self._waiting}

    def _send(self) -> None:
        offers: list[Offer] = []
        size = 0
        for offer in self._waiting.values():
            if len(offers) == _MOST_ENTRIES or (offers and size + len(offer.value) > _MOST_TOGETHER):
                break
            offers.append(offer)
            size += len(offer.value)
        for offer in offers:
            del self._waiting[offer.incarnation, offer.number]
            self._of[offer.incarnation] -= 1
        self._bytes -= size
        self._since = began = self._clock.perf_counter()
        proxies = {offer.incarnation for offer in offers}
        self._recent.append(proxies.copy())
        self._in_flight.append(proxies)

        def answered(outcome: TxnResult | EtcdError) -> None:
            self._in_flight.remove(proxies)
            if isinstance(outcome, TxnResult) and outcome.succeeded:
                seconds = self._clock.perf_counter() - began
                self._round_trip += (seconds - self._round_trip) / 8
                if len(proxies) > 1:
                    self._stats.combined_txns += 1
                    self._stats.combined_entries += len(offers)
                for offer in offers:
                    offer.appended(outcome, seconds)
            else:
                for offer in offers:
                    offer.refused()
            self._send_what_is_ready()

        self._etcd.begin_txn(txn_of_all(self._keys, offers), _TIMEOUT, answered)
