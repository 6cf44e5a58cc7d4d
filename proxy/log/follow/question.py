"""What is in etcd that is not applied yet, and whether the watch has delivered it since. Pure.

Two parts ask this: `staleness` about once a second, and `append.head_reader` for syncs. The ranges have all
keys of the log that are not applied: those above the last number of each incarnation, and all between the
incarnations that are known. The tree's record is read after them: a new record precedes each truncation, so
entries that were truncated before they were delivered are not overlooked.

What the watch has delivered is not taken for applied: after a break the follower is ahead of the applier for
as long as a load takes.
"""

import math
from collections.abc import Mapping, Sequence

from proxy.etcd.model import MOST_OPS, EtcdUnknown, Get, Op, RangeResult, Txn, TxnResult
from proxy.log.follow.follower import Follower, order_of
from proxy.log.foreign import ours

_MOST_KEYS = 100  # of one range


class Question:
    """One question: what to ask, and after `answered`, what the answer means."""

    def __init__(self, follower: Follower, applied: Mapping[str, int], began: float) -> None:
        """`applied`: the last number of each incarnation. `began`: now, by the clock of whoever asks."""
        self.began = began
        self._follower = follower
        self._processed = follower.revision
        self._living = tuple(follower.living)
        keys = follower.keys
        ops: list[Op] = [Get(keys.proxies, keys.proxies_end, keys_only=True)]
        start = keys.log
        for incarnation in sorted(applied, key=keys.entries_of):
            ops.append(Get(start, keys.entries_of(incarnation)[0], keys_only=True, limit=_MOST_KEYS))
            start = keys.entry(incarnation, applied[incarnation] + 1)
        ops += Get(start, keys.log_end, keys_only=True, limit=_MOST_KEYS), Get(keys.tree, keys_only=True)
        #: To be committed one after the other, linearizably.
        self.txns = [Txn((), ops[place : place + MOST_OPS]) for place in range(0, len(ops), MOST_OPS)]
        #: The watch lacks something that it has passed: the state is wrong (etcd's issue 17529).
        self.left_out = False
        self._gone: list[str] = []  # proxies whose key is gone
        #: The highest revision of what was found.
        self.newest = 0
        self._bound = math.inf  # at this revision the watch has delivered everything that was there
        self._delivered: Mapping[str, int] | None = None  # the last numbers when it had

    def answered(self, answers: Sequence[TxnResult]) -> None:
        """Take the answers to `txns`. Raises EtcdUnknown if one is old (etcd's issue 20418)."""
        if (oldest := min(answer.revision for answer in answers)) < self._processed:
            raise EtcdUnknown(f"an answer as of revision {oldest}, after {self._processed}")
        found = [each for answer in answers for each in answer.responses if isinstance(each, RangeResult)]
        keys = self._follower.keys
        entries = sorted(ours(keys, (pair for each in found[1:-1] for pair in each.kvs)), key=order_of)
        proxies = {keys.parse(pair.key).incarnation: pair for pair in ours(keys, found[0].kvs)}
        self._gone = [name for name in self._living if name not in proxies]
        came = [pair for name, pair in proxies.items() if name not in self._living]
        # A key that was there when the watch had passed it, and still is, was there all the time.
        unseen = any(pair.mod_revision <= self._processed for pair in came)
        self.left_out = unseen or self._follower.left_out(entries) is not None
        self.newest = max((pair.mod_revision for pair in (*entries, *came, *found[-1].kvs)), default=0)
        if not self.left_out:
            is_cut = any(each.more for each in found)
            self._bound = answers[-1].revision if is_cut else self.newest

    @property
    def is_exact(self) -> bool:
        """Whether everything that was there was found."""
        return self._bound == self.newest

    @property
    def is_delivered(self) -> bool:
        """Whether the watch has delivered what was found. An entry may wait for its predecessor."""
        follower = self._follower
        return follower.revision >= self.newest and not any(name in follower.living for name in self._gone)

    def is_applied(self, applied: Mapping[str, int]) -> bool:
        """Whether everything that was there is applied. `applied`: the last number of each incarnation."""
        follower = self._follower
        if self._delivered is None and follower.revision >= self._bound and self.is_delivered:
            self._delivered = dict(follower.numbers)
        return self._delivered is not None and all(
            applied.get(name, 0) >= number
            for name, number in self._delivered.items()
            if name in follower.living
        )
