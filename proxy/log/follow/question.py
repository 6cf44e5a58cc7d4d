"""What is in etcd that is not applied yet, and whether the watch has delivered it since. Pure.

Two parts ask this: `staleness` about once a second, and `append.head_reader` for syncs. The ranges have all
keys of the log that are not applied: those above the last number of each incarnation, and all between the
incarnations that are known. The tree's record is read after them: a new record precedes each truncation, so
entries that were truncated before they were delivered are not overlooked.

A program that uses the prefix may have put any number of keys. Where these fill a range, `Staleness` asks on:
otherwise what is behind them, and new, would not be found; or this proxy would never know that nothing is.

What the watch has delivered is not taken for applied: after a break the order is ahead of the applier for
as long as a load takes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from proxy.etcd.model import MOST_OPS, EtcdUnknown, Get, KeyValue, RangeResult, Txn, TxnResult
from proxy.log.follow.log_order import LogOrder, order_of
from proxy.log.foreign import ours

_MOST_KEYS = 100  # of one range
_MOST_FOREIGN = 1000  # of one range behind keys that are not ours
_MOST_FURTHER = 16  # times that a question asks on behind these


class Question:
    """One question: what to ask, and after `answered`, what the answer means."""

    def __init__(self, order: LogOrder, applied: Mapping[str, int], began: float) -> None:
        """`applied`: the last number of each incarnation. `began`: now, by the clock of whoever asks."""
        self.began = began
        self._order = order
        self._processed = order.revision
        self._living = tuple(order.living)
        keys = order.keys
        self._asked = [Get(keys.proxies, keys.proxies_end, keys_only=True)]
        start = keys.log
        for incarnation in sorted(applied, key=keys.entries_of):
            self._asked.append(_range(start, keys.entries_of(incarnation)[0], _MOST_KEYS))
            start = keys.entry(incarnation, applied[incarnation] + 1)
        self._asked += _range(start, keys.log_end, _MOST_KEYS), Get(keys.tree, keys_only=True)
        #: To be committed one after the other, linearizably.
        self.txns = _txns(self._asked)
        self._further = 0  # how often it was asked on
        self._entries: list[KeyValue] = []
        self._proxies: dict[str, KeyValue] = {}
        #: The watch lacks something that it has passed: the state is wrong (etcd's issue 17529).
        self.left_out = False
        self._gone: list[str] = []  # proxies whose key is gone
        #: The highest revision of what was found.
        self.newest = 0
        self._bound = math.inf  # at this revision the watch has delivered everything that was there
        self._delivered: Mapping[str, int] | None = None  # the last numbers when it had

    def answered(self, answers: Sequence[TxnResult]) -> Sequence[Txn]:
        """Take the answers to `txns`. Returns what else to ask so that this is exact, and to pass here too.

        Raises EtcdUnknown if an answer is old (etcd's issue 20418).
        """
        if (oldest := min(answer.revision for answer in answers)) < self._processed:
            raise EtcdUnknown(f"an answer as of revision {oldest}, after {self._processed}")
        found = [each for answer in answers for each in answer.responses if isinstance(each, RangeResult)]
        keys = self._order.keys
        if not self._further:
            self._proxies = {keys.parse(pair.key).incarnation: pair for pair in ours(keys, found[0].kvs)}
            self._gone = [name for name in self._living if name not in self._proxies]
        further, is_cut = self._take_entries(zip(self._asked, found, strict=True))
        came = [pair for name, pair in self._proxies.items() if name not in self._living]
        # A key that was there when the watch had passed it, and still is, was there all the time.
        unseen = any(pair.mod_revision <= self._processed for pair in came)
        self.left_out = unseen or self._order.left_out(self._entries) is not None
        self.newest = max((pair.mod_revision for pair in (*self._entries, *came, *found[-1].kvs)), default=0)
        if not self.left_out:
            self._bound = answers[-1].revision if further or is_cut else self.newest
        if is_cut or not further or self._further == _MOST_FURTHER:
            return ()
        self._further += 1
        self._asked = [*further, Get(keys.tree, keys_only=True)]
        return _txns(self._asked)

    def _take_entries(self, answers: Iterable[tuple[Get, RangeResult]]) -> tuple[list[Get], bool]:
        """Take those of the log. Returns what is behind keys that are not ours, and whether ours are left."""
        keys = self._order.keys
        further: list[Get] = []
        is_cut = False
        for get, found in answers:
            if get.limit:
                entries = ours(keys, found.kvs)
                self._entries += entries
                if found.more and len(entries) < len(found.kvs):
                    further.append(_range(found.kvs[-1].key + b"\0", get.range_end, _MOST_FOREIGN))
                elif found.more:
                    is_cut = True
        self._entries.sort(key=order_of)
        return further, is_cut

    @property
    def is_exact(self) -> bool:
        """Whether everything that was there was found."""
        return self._bound == self.newest

    @property
    def is_delivered(self) -> bool:
        """Whether the watch has delivered what was found. An entry may wait for its predecessor."""
        order = self._order
        return order.revision >= self.newest and not any(name in order.living for name in self._gone)

    def is_applied(self, applied: Mapping[str, int]) -> bool:
        """Whether everything that was there is applied. `applied`: the last number of each incarnation."""
        order = self._order
        if self._delivered is None and order.revision >= self._bound and self.is_delivered:
            self._delivered = dict(order.numbers)
        # That a proxy is gone is delivered before all of it is applied. One that is forgotten may stay there.
        return self._delivered is not None and all(
            applied.get(name, 0) >= number
            for name, number in self._delivered.items()
            if name in order.living or name in applied
        )


def _range(start: bytes, end: bytes, limit: int) -> Get:
    return Get(start, end, keys_only=True, limit=limit)


def _txns(gets: Sequence[Get]) -> list[Txn]:
    return [Txn((), gets[place : place + MOST_OPS]) for place in range(0, len(gets), MOST_OPS)]
