"""Whether the standby lives: the copy that takes over if this tree's region is lost, and its follower.

With --standby-within N a proxy serves only while it knows that the follower (`zketcd follow`) held the copy
at most N seconds ago. No clocks are compared. The follower touches the copy's fence, and then puts a sign of
life into this etcd, with a revision of this etcd that it had seen before. So it held the copy after this
revision was made. The proxy asks etcd about once a second: a revision that its question did not find yet was
made after it had asked, by its own clock. It asks by a Txn that etcd orders like a write: some releases give
old answers to reads (20418).

Until a follower has signed, this tree cannot have been given up, and the proxy serves. A follower signs
before it notes in the copy that a process that gives this tree up has to wait.

So a process that takes the fence, and then waits for N seconds, knows that no proxy of this tree answers any
more, whatever stood still or was late (docs/decisions/0052).
"""

import asyncio
import logging
from collections import deque
from typing import NamedTuple

from proxy.etcd.interface import Etcd
from proxy.etcd.model import Delete, EtcdError, Get, RangeResult, Txn
from proxy.support.environment import Clock
from schema.errors import BadValue
from schema.followed import Sign, decode_sign
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_INTERVAL = 1.0  # seconds between two questions
_TIMEOUT = 2.0


class _Question(NamedTuple):
    began: float
    revision: int  # of etcd, as of the answer


class Standby:
    """What one proxy knows of the standby. With `within` 0 it needs none."""

    def __init__(self, etcd: Etcd, keys: Keyspace, within: float, clock: Clock) -> None:
        self._etcd = etcd
        self._key = keys.heard
        self._now = clock.monotonic
        self._questions: deque[_Question] = deque()  # the oldest one that may count, and those after it
        self._began = self._now()
        self._complaint = ""  # about the sign
        self._is_reported = False
        self._has_signed = False
        self._held_at = -float("inf")
        #: Seconds; 0: this proxy serves without a standby.
        self.within = within

    @property
    def left(self) -> float:
        """Seconds for which this proxy may serve."""
        return self._held_at + self.within - self._now() if self.within else float("inf")

    @property
    def is_silent(self) -> bool:
        """Whether this proxy may not serve."""
        return self.within > 0 and self.left <= 0

    @property
    def is_needed(self) -> bool:
        """Whether clients are served only while the follower is heard: once one has signed, for ever."""
        return self.within > 0 and self._has_signed

    @property
    def silence(self) -> float:
        """Seconds since the follower held the copy, at most."""
        return self._now() - max(self._held_at, self._began)

    @property
    def reason(self) -> str:
        """Why no client is served."""
        return f"the standby has not been heard within {self.within:g} s{self._complaint}"

    async def run(self) -> None:
        """Ask for ever."""
        ask = Txn((), (Get(self._key), Delete(self._key + b"\0")))  # it deletes nothing
        while self.within:
            began = self._now()
            try:
                answer = await self._etcd.txn(ask, _TIMEOUT)
            except EtcdError as error:
                log.debug("cannot ask etcd for the standby's sign of life: %s", error)
            else:
                found = answer.responses[0]
                assert isinstance(found, RangeResult)
                self.answered(began, answer.revision, found.kvs[0].value if found.kvs else None)
            if self.is_silent and not self._is_reported and self.silence > self.within:
                self._is_reported = True
                log.warning("%s: no client is served until it is", self.reason)
            await asyncio.sleep(max(0.0, _INTERVAL - (self._now() - began)))

    def answered(self, began: float, revision: int, value: bytes | None) -> None:
        """etcd's answer, as of a revision, to a question that was asked at `began`."""
        questions = self._questions
        if questions and revision < questions[-1].revision:
            questions.clear()  # etcd was restored
        self._note(began, value)
        self._take(revision, value)
        if not questions or revision > questions[-1].revision:
            questions.append(_Question(began, revision))
        else:
            questions[-1] = _Question(began, revision)
        while questions[0].began < began - self.within:
            questions.popleft()
        if not self.is_silent:
            self._is_reported = False

    def _note(self, began: float, value: bytes | None) -> None:
        """Whether a follower has signed."""
        if self._has_signed:
            return
        if value is None:
            if self._held_at < 0:
                log.warning("clients are served without a standby: none has been heard since this tree began")
            self._held_at = max(self._held_at, began)
            return
        self._has_signed = True
        log.info("a follower has signed: clients are served while it is heard within %g s", self.within)

    def _take(self, revision: int, value: bytes | None) -> None:
        try:
            sign = None if value is None else decode_sign(value)
        except BadValue as error:
            sign, self._complaint = None, f": {error}"
        else:
            self._complaint = self._fault(sign)
        if sign is None or self._complaint or sign.revision > revision:
            return
        for question in reversed(self._questions):
            if question.revision < sign.revision:
                self._held_at = max(self._held_at, question.began)
                return

    def _fault(self, sign: Sign | None) -> str:
        if sign is None:
            return ": there is no sign of life of a follower with --standby-within"
        if sign.within < self.within:
            return f": its follower has --standby-within {sign.within}, and this proxy needs as much at least"
        return ""
