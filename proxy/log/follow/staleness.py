"""Whether this proxy may show its state to clients: it has to be right, and recent.

A lease that is kept alive proves nothing about the stream: a watch may hang while etcd answers other
requests. So about once a second the proxy reads from etcd, linearizably, the proxies' keys and how many
entries of each living proxy follow those that are applied. If the stream does not deliver these soon,
another watch is started (`watch_guard`), since a watch that hangs may hang for ever. If the proxy has not
applied them within some seconds, it stops serving until it has.

If etcd refuses these reads, or does not answer them although it answers other requests, the proxy stops
serving as well, and does not keep its lease alive: it cannot end the sessions of clients that are gone, so
that other proxies have to.

While etcd answers no request at all, clients are still served: `frontend.sessions` closes each connection
when its session's timeout has passed without a keep-alive.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    MOST_OPS,
    EtcdError,
    EtcdRefused,
    EtcdUnknown,
    Get,
    KeyValue,
    Op,
    RangeResult,
    Txn,
)
from proxy.log.follow.follower import Follower, order_of
from proxy.log.follow.watch_guard import WatchGuard
from proxy.state.machine import Machine
from proxy.support.environment import Clock
from proxy.support.tasks import together
from schema.errors import ForeignKey
from schema.keys import Keyspace

log = logging.getLogger(__name__)

LIMIT = 10.0  # seconds
_INTERVAL = 1.0  # seconds between two questions
_TICK = 0.1  # seconds between two checks of what was applied since, while something is missing
_TIMEOUT = 2.0


class _Answer(NamedTuple):
    """What etcd contained at a question that was not applied yet."""

    asked: float  # monotonic seconds
    entries: list[tuple[str, int, int]]  # incarnation, its last applied number, entries above that
    came: list[int]  # create_revisions of the keys of new proxies
    gone: list[str]  # incarnations whose key is gone


def _proxies(keys: Keyspace, pairs: Iterable[KeyValue]) -> Iterator[tuple[str, KeyValue]]:
    """The incarnations that these keys name, without keys that are not ours."""
    for pair in pairs:
        with suppress(ForeignKey):
            yield keys.parse(pair.key).incarnation, pair


class Staleness:
    """Compares the state of one proxy with etcd, and decides whether clients may see it.

    More than twelve attributes: each of the four ways in which a state can be old or wrong has its own.
    """

    def __init__(
        self,
        etcd: Etcd,
        follower: Follower,
        machine: Machine,
        watch_guard: WatchGuard,
        stopped: Callable[[str], None],
        limit: float,
        clock: Clock,
    ) -> None:
        """`stopped` is called with the reason when clients may no longer see the state.

        `limit`: seconds in which the proxy has to catch up.
        """
        self._etcd = etcd
        self._follower = follower
        self._machine = machine
        self._watch_guard = watch_guard
        self._stopped = stopped
        self._limit = limit
        self._now = clock.monotonic
        self._answers: deque[_Answer] = deque()
        # Monotonic time since which questions have no answer, while other requests have.
        self._unanswered_since: float | None = None
        self._obstacle = ""
        #: Whether the state is what the log makes, as far as this proxy knows.
        self.right = True
        self._recent = asyncio.Event()
        #: Everything that was in etcd at this monotonic time is applied.
        self.caught_up_at = -float("inf")

    @property
    def serving(self) -> bool:
        """Whether clients may see the state."""
        return self._recent.is_set() and self.right

    @property
    def silence(self) -> float:
        """Seconds since etcd last answered any request."""
        return max(0.0, self._now() - self._etcd.last_contact)

    @property
    def age(self) -> float:
        """How many seconds old the state may be."""
        return self._now() - self.caught_up_at

    @property
    def cut_off(self) -> bool:
        """Whether etcd has left all questions unanswered for too long, but has not been silent."""
        since = self._unanswered_since
        return since is not None and self._now() - since > self._limit

    async def caught_up(self) -> None:
        """Wait until the state is recent."""
        await self._recent.wait()

    def distrust(self) -> None:
        """The state differs from what the log makes: clients may not see it before it was loaded anew."""
        self.right = False
        self._stopped("this proxy's state is not what the log says: loading the tree anew")

    def trust(self) -> None:
        """The state was loaded anew: clients may see it."""
        self.right = True

    async def run(self) -> None:
        """Ask, and decide by the answers, for ever."""
        try:
            await together([self._ask(), self._judge()])
        finally:
            self._watch_guard.stop()

    async def _ask(self) -> None:
        while True:
            asked = self._now()
            try:
                await self.probe()
            except EtcdError as error:
                log.debug("cannot ask etcd for the newest entries: %s", error)
                self.unanswered(asked, error)
            await asyncio.sleep(max(0.0, _INTERVAL - (self._now() - asked)))

    async def _judge(self) -> None:
        """Rarely while nothing is missing: each timer that wakes an idle process costs it 0.1 to 0.3 ms."""
        while True:
            self.judge()
            is_recent = self.serving and not self._answers and self._unanswered_since is None
            await asyncio.sleep(min(_INTERVAL, self._limit / 10) if is_recent else _TICK)

    async def probe(self) -> None:
        """Ask once. Raises EtcdError."""
        follower = self._follower
        keys = follower.keys
        living, gone_by, processed = list(follower.living), follower.gone[:], follower.revision
        before = {name: self._machine.applied.get(name, 0) for name in living}
        asked = self._now()
        found: list[RangeResult] = []
        proxies: Op = Get(keys.proxies, keys.proxies_end, keys_only=True)
        ops: list[Op] = [proxies]
        for name in living:
            _, end = keys.entries_of(name)
            ops.append(Get(keys.entry(name, before[name] + 1), end, keys_only=True, limit=1))
        # No entry of these can follow. One that was not delivered before their end was left out.
        for name in gone_by:
            _, end = keys.entries_of(name)
            ops.append(Get(keys.entry(name, follower.delivered(name) + 1), end, keys_only=True, limit=1))
        for start in range(0, len(ops), MOST_OPS):
            answer = await self._etcd.txn(Txn((), ops[start : start + MOST_OPS]), _TIMEOUT)
            if answer.revision < processed:  # etcd's issue 20418
                raise EtcdUnknown(f"an answer as of revision {answer.revision}, after {processed}")
            found += [result for result in answer.responses if isinstance(result, RangeResult)]
        follower.gone = [name for name in follower.gone if name not in gone_by]
        there = dict(_proxies(keys, found[0].kvs))
        entries = [
            (name, before[name], result.count)
            for name, result in zip(living, found[1 : 1 + len(living)], strict=True)
            if result.count
        ]
        new = [kv for name, kv in there.items() if name not in living]
        first = sorted((kv for result in found[1:] for kv in result.kvs), key=order_of)
        # A key that was there when the watch had passed it, and still is, was there all the time.
        if self.right and (
            follower.left_out(first) is not None or any(kv.create_revision <= processed for kv in new)
        ):
            self._watch_guard.left_out()  # etcd's issue 17529
        came = [kv.create_revision for kv in new]
        gone = [name for name in living if name not in there]
        missing = _Answer(asked, entries, came, gone)
        self._answers.append(missing)
        self._unanswered_since = None
        self.judge()
        if not self._is_delivered(missing):
            self._watch_guard.expect(partial(self._is_delivered, missing), self._now() - asked)

    def unanswered(self, asked: float, error: EtcdError) -> None:
        """A question that was asked then has failed."""
        self._obstacle = f"etcd does not say what is new: {error}"
        refused = isinstance(error, EtcdRefused)
        if not refused and self._etcd.last_contact < asked and self._recent.is_set():
            self._unanswered_since = None  # etcd answers nothing else either
        elif self._unanswered_since is None:
            self._unanswered_since = asked

    def judge(self) -> None:
        """Decide, by what was applied since, whether the state is recent."""
        self._forget_applied()
        self._decide()

    def _forget_applied(self) -> None:
        """Drop the answers up to the newest one whose entries are all applied."""
        for index in range(len(self._answers) - 1, -1, -1):
            if self._is_in(self._answers[index], self._machine.applied):
                self.caught_up_at = self._answers[index].asked
                for _ in range(index + 1):
                    self._answers.popleft()
                break

    def _decide(self) -> None:
        """The state is recent if the proxy has caught up once, and nothing is overdue."""
        now = self._now()
        overdue = bool(self._answers) and now - self._answers[0].asked > self._limit
        recent = self.caught_up_at > 0 and not overdue and not self.cut_off
        if recent == self._recent.is_set():
            return
        if recent:
            log.info("caught up with etcd")
            self._recent.set()
        else:
            log.warning("not caught up with etcd for %.1f s", self.age)
            self._recent.clear()
            late = "etcd has entries that this proxy has not applied in time"
            self._stopped(self._obstacle if self.cut_off else late)

    def _is_delivered(self, answer: _Answer) -> bool:
        """Whether the stream has delivered all of the answer. All of one that was dropped is applied."""
        return answer not in self._answers or self._is_in(answer, self._follower.numbers)

    def _is_in(self, answer: _Answer, numbers: Mapping[str, int]) -> bool:
        """Whether `numbers`, the last ones of each incarnation, include all entries of the answer."""
        follower = self._follower
        living = follower.living
        return (
            all(
                name not in living or numbers.get(name, 0) - before + follower.held(name) >= count
                for name, before, count in answer.entries
            )
            and all(revision <= follower.revision for revision in answer.came)
            and all(name not in living for name in answer.gone)
        )
