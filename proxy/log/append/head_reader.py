"""Reads the head of the log for syncs that are in no entry: which entries this proxy still has to apply.

The shell around `syncs`. One read is under way at a time. It is one linearizable Txn, whose ranges hold all
keys of the log that this proxy has not applied: those above the last number of each incarnation, and all
between the incarnations that it knows. The proxy has everything when the watch has passed the newest of them.
The tree's record is read too: a new record precedes each truncation, so that entries which were truncated
unseen are not overlooked.

Where a read cannot decide, nothing is tried again: the syncs are sent in an entry. So they are while a member
of etcd has, or may have, a version whose linearizable reads can be old (issue 20418).
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from proxy.etcd.model import MOST_OPS, EtcdError, Get, KeyValue, Op, RangeResult, Txn, TxnResult
from proxy.etcd.versions import reads_are_new
from proxy.log.append.outbox import Outbox
from proxy.log.append.syncs import Asked, Proven
from proxy.log.context import Context
from proxy.log.follow.follower import order_of
from proxy.log.follow.watch_guard import WatchGuard
from schema.errors import ForeignKey
from schema.keys import KeyKind

log = logging.getLogger(__name__)

_TIMEOUT = 1.0
_MOST_KEYS = 100  # of one range


class HeadReader:
    """Reads for the syncs of one proxy."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        watch_guard: WatchGuard,
        proven: Callable[[Proven], None],
    ) -> None:
        """`proven` is called when everything is delivered that the syncs of a read have to wait for."""
        self._etcd = context.etcd
        self._keys = context.keys
        self._machine = context.machine
        self._outbox = outbox
        self._watch_guard = watch_guard
        self._proven = proven
        self._now = context.environment.clock.perf_counter
        self._is_trusted = False  # linearizable reads of this etcd are never old
        self._delivered = 0  # everything up to this revision
        self._awaited: tuple[int, Proven] | None = None  # what a read has found, and the revision to come

    def learned_versions(self, versions: Iterable[str]) -> None:
        """The versions of etcd's members: by them, a read may take the place of an entry for a sync."""
        known = list(versions)
        self._is_trusted = bool(known) and all(map(reads_are_new, known))

    def read(self) -> None:
        """Read, if syncs wait for that."""
        asked = self._outbox.syncs.ask()
        if asked is None:
            return
        ops = self._ranges()
        if not self._is_trusted or len(ops) > MOST_OPS:
            self._outbox.append_syncs()
        else:
            self._etcd.begin_txn(Txn((), ops), _TIMEOUT, partial(self._answered, asked, self._now()))

    def delivered(self, revision: int) -> None:
        """The applier has got everything up to this revision."""
        self._delivered = revision
        if self._awaited is not None and self._awaited[0] <= revision:
            proven, self._awaited = self._awaited[1], None
            self._proven(proven)

    def _ranges(self) -> list[Op]:
        keys, numbers = self._keys, self._machine.applied
        ops: list[Op] = [Get(keys.tree, keys_only=True)]
        start = keys.log
        for incarnation in sorted(numbers, key=keys.entries_of):
            ops.append(Get(start, keys.entries_of(incarnation)[0], keys_only=True, limit=_MOST_KEYS))
            start = keys.entry(incarnation, numbers[incarnation] + 1)
        ops.append(Get(start, keys.log_end, keys_only=True, limit=_MOST_KEYS))
        return ops

    def _answered(self, asked: Asked, began: float, answer: TxnResult | EtcdError) -> None:
        if asked is not self._outbox.syncs.asked:
            return  # an entry has proven them
        seconds = self._now() - began
        newest = None if isinstance(answer, EtcdError) else self._newest(answer)
        if newest is None:
            log.debug("the log's head was not read for %d syncs, in %.3f s: %s", len(asked), seconds, answer)
            self._outbox.append_syncs()
            return
        self._awaited = (newest.mod_revision, Proven(asked, began))
        if newest.mod_revision > self._delivered:
            with suppress(ForeignKey):
                key = self._keys.parse(newest.key)
                if key.kind is KeyKind.ENTRY:
                    self._watch_guard.landed(key.incarnation, key.number, seconds)
        self.delivered(self._delivered)

    def _newest(self, answer: TxnResult) -> KeyValue | None:
        """The newest key that was found; None if the answer is old, or there are too many."""
        found = [each for each in answer.responses if isinstance(each, RangeResult)]
        if answer.revision < self._delivered or any(each.more for each in found):
            return None
        pairs = [pair for each in found for pair in each.kvs]
        return max(pairs, key=order_of, default=None)
