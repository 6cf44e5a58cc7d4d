"""Whether what this proxy shows is recent: a question to etcd about once a second, past the watch.

A lease that is kept alive says nothing about the stream: a watch may hang while other requests are answered.
So etcd is asked, linearizably, how many entries of each living proxy follow those that are applied, and for
the proxies' keys. A proxy that has not applied within some seconds what was there when it asked stops serving
until it has. So does one whose questions stay unanswered although etcd answers other requests. Where it is
the stream that has not brought it, another watch is begun before that: one that hangs may hang for ever.

While etcd answers nothing at all, clients are still served: `frontend.sessions` closes each connection when
its session's timeout has passed without a keep-alive.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, Get, Op, RangeResult, Txn
from proxy.log.follower import Follower
from proxy.state.machine import Machine
from schema.keys import Keyspace

log = logging.getLogger(__name__)

LIMIT = 10.0  # seconds
_INTERVAL = 1.0  # seconds between two questions
_TICK = 0.1  # seconds between two looks at what was applied since
_TIMEOUT = 2.0
_MOST_OPS = 120  # in one Txn; etcd's --max-txn-ops is 128


class _Answer(NamedTuple):
    """What was there when etcd was asked and was not applied yet."""

    asked: float  # time.monotonic()
    entries: list[tuple[str, int, int]]  # incarnation, its last applied number, entries above that
    came: list[int]  # revisions at which proxies came
    gone: list[str]  # incarnations whose key is gone


class Staleness:
    """Watches over one proxy's distance to etcd."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        follower: Follower,
        machine: Machine,
        changed: Callable[[bool], None],
        hangs: Callable[[], None],
        limit: float = LIMIT,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`changed` is called with whether the proxy may serve, whenever that changes; at first it may not.

        `hangs` is called when the stream has not brought something for half of `limit` seconds,
        and each time that so many have passed again.
        """
        self._etcd = etcd
        self._keys = keys
        self._follower = follower
        self._machine = machine
        self._changed = changed
        self._hangs = hangs
        self._renewed = -float("inf")  # when the watch was last given up: time.monotonic()
        self._limit = limit
        self._clock = clock or time.monotonic
        self._answers: deque[_Answer] = deque()
        # Since when questions have no answer, while other requests have: time.monotonic().
        self._unanswered_since: float | None = None
        #: Everything that was in etcd at this time (time.monotonic()) is applied.
        self.caught_up_at = -float("inf")
        self.serving = False

    @property
    def age(self) -> float:
        """How many seconds old what we show may be."""
        return self._clock() - self.caught_up_at

    async def run(self) -> None:
        """Ask and judge for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask())
            group.create_task(self._judge())

    async def _ask(self) -> None:
        while True:
            asked = self._clock()
            try:
                await self.probe()
            except EtcdError as error:
                log.debug("etcd does not say what is newest: %s", error)
                self.unanswered(asked)
            await asyncio.sleep(max(0.0, _INTERVAL - (self._clock() - asked)))

    async def _judge(self) -> None:
        while True:
            self.judge()
            await asyncio.sleep(_TICK)

    async def probe(self) -> None:
        """Ask once. Raises EtcdError."""
        keys = self._keys
        living = list(self._follower.living)
        before = {name: self._machine.applied.get(name, 0) for name in living}
        asked = self._clock()
        found: list[RangeResult] = []
        proxies: Op = Get(keys.proxies, keys.proxies_end, keys_only=True)
        ops: list[Op] = [proxies]
        for name in living:
            _, end = keys.entries_of(name)
            ops.append(Get(keys.entry(name, before[name] + 1), end, keys_only=True, limit=1))
        for start in range(0, len(ops), _MOST_OPS):
            answer = await self._etcd.txn(Txn((), ops[start : start + _MOST_OPS]), _TIMEOUT)
            found += [result for result in answer.responses if isinstance(result, RangeResult)]
        there = {kv.key[len(keys.proxies) :].decode(errors="replace"): kv for kv in found[0].kvs}
        entries = [
            (name, before[name], result.count)
            for name, result in zip(living, found[1:], strict=True)
            if result.count
        ]
        came = [kv.create_revision for name, kv in there.items() if name not in living]
        gone = [name for name in living if name not in there]
        self._answers.append(_Answer(asked, entries, came, gone))
        self._unanswered_since = None
        self.judge()

    def unanswered(self, asked: float) -> None:
        """A question that was asked then has failed."""
        if self._etcd.last_contact < asked:
            self._unanswered_since = None  # etcd answers nothing else either
        elif self._unanswered_since is None:
            self._unanswered_since = asked

    def judge(self) -> None:
        """See what was applied since, whether the proxy may serve, and whether the watch hangs."""
        self._forget_applied()
        self._decide()
        self._renew_hanging()

    def _forget_applied(self) -> None:
        """Drop the answers up to the newest one of which everything is applied."""
        for index in range(len(self._answers) - 1, -1, -1):
            if self._is_applied(self._answers[index]):
                self.caught_up_at = self._answers[index].asked
                for _ in range(index + 1):
                    self._answers.popleft()
                break

    def _decide(self) -> None:
        """Whether the proxy may serve: it has caught up once, and nothing is overdue."""
        now = self._clock()
        overdue = [self._answers[0].asked] if self._answers else []
        if self._unanswered_since is not None:
            overdue.append(self._unanswered_since)
        serving = self.caught_up_at > 0 and all(now - asked <= self._limit for asked in overdue)
        if serving != self.serving:
            self.serving = serving
            if serving:
                log.info("caught up with etcd: serving")
            else:
                log.error("not caught up with etcd for %.1f s: no client is served until it is", self.age)
            self._changed(serving)

    def _renew_hanging(self) -> None:
        """Give the watch up if it has not brought what was there half of the limit ago."""
        if not self._answers:
            return
        now = self._clock()
        oldest = self._answers[0]
        waited = now - max(oldest.asked, self._renewed)
        if waited > self._limit / 2 and not self._has_come(oldest, self._follower.numbers):
            self._renewed = now
            self._hangs()

    def _is_applied(self, answer: _Answer) -> bool:
        return self._has_come(answer, self._machine.applied)

    def _has_come(self, answer: _Answer, numbers: Mapping[str, int]) -> bool:
        """Whether what was there is counted in `numbers`, the last ones of each incarnation."""
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
