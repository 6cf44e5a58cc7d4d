"""Reads the head of the log for syncs that are in no entry: which entries this proxy still has to apply.

The shell around `syncs`. One read is under way at a time: a `Question` in one linearizable Txn. The proxy has
everything when the watch has passed what was found.

Where a read cannot decide, nothing is tried again: the syncs are sent in an entry. So they are while a member
of etcd has, or may have, a version whose linearizable reads can be old (issue 20418).
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from proxy.etcd.model import EtcdError, EtcdUnknown, TxnResult
from proxy.etcd.versions import reads_are_new
from proxy.log.append.outbox import Outbox
from proxy.log.append.syncs import Asked, Proven
from proxy.log.context import Context
from proxy.log.follow.log_follower import LogFollower
from proxy.log.follow.question import Question

log = logging.getLogger(__name__)

_TIMEOUT = 1.0


class HeadReader:
    """Reads for the syncs of one proxy."""

    def __init__(
        self, context: Context, outbox: Outbox, follower: LogFollower, proven: Callable[[Proven], None]
    ) -> None:
        """`proven` is called when everything is delivered that the syncs of a read have to wait for."""
        self._etcd = context.etcd
        self._machine = context.machine
        self._outbox = outbox
        self._order = follower.order
        self._watch_guard = follower.watch_guard
        self._proven = proven
        self._now = context.environment.clock.perf_counter
        self._is_trusted = False  # linearizable reads of this etcd are never old
        self._delivered = 0  # everything up to this revision
        self._awaited: tuple[Asked, Question] | None = None  # the watch has to pass what was found

    def learned_versions(self, versions: Iterable[str]) -> None:
        """The versions of etcd's members: by them, a read may take the place of an entry for a sync."""
        known = list(versions)
        self._is_trusted = bool(known) and all(map(reads_are_new, known))

    def read(self) -> None:
        """Read, if syncs wait for that."""
        asked = self._outbox.syncs.ask()
        if asked is None:
            return
        question = Question(self._order, self._machine.applied, self._now())
        if not self._is_trusted or len(question.txns) > 1:
            self._outbox.append_syncs()
        else:
            self._etcd.begin_txn(question.txns[0], _TIMEOUT, partial(self._answered, asked, question))

    def delivered(self, revision: int) -> None:
        """The applier has got everything up to this revision."""
        self._delivered = revision
        if self._awaited is not None and self._awaited[1].newest <= revision:
            (asked, question), self._awaited = self._awaited, None
            self._proven(Proven(asked, question.began))

    def _answered(self, asked: Asked, question: Question, answer: TxnResult | EtcdError) -> None:
        if asked is not self._outbox.syncs.asked:
            return  # an entry has proven them
        seconds = self._now() - question.began
        if isinstance(answer, TxnResult):
            with suppress(EtcdUnknown):
                question.answered([answer])
        if not question.is_exact:
            log.debug("the log's head was not read for %d syncs, in %.3f s: %s", len(asked), seconds, answer)
            self._outbox.append_syncs()
            return
        self._awaited = asked, question
        if not question.is_delivered:
            self._watch_guard.expect(lambda: question.is_delivered, seconds)
        self.delivered(self._delivered)
