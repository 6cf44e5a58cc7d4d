"""Whether this proxy may show its state to clients: it has to be right, and recent.

A lease that is kept alive proves nothing about the stream: a watch may hang while etcd answers other
requests. So about once a second the proxy reads from etcd, linearizably, the proxies' keys and what
the log has above what is applied. If the stream does not deliver these soon,
another watch is started (`watch_guard`), since a watch that hangs may hang for ever. If it has not delivered
them within some seconds, the proxy stops serving until they are applied.

If it has delivered them, and they are not applied within these seconds, the proxy is slow, or an entry is
long. Then it is behind: clients wait until everything is applied that was there some seconds before
(`turns.StateGate`), so none reads what is too old. Their connections stay open. Every other proxy applies the
same entries, and a client for which this takes too long gets no answer to its pings, and goes by itself.

A process that was stopped (SIGSTOP, a frozen cgroup) wakes with what its clients have sent meanwhile, and the
stream may show later what was new by then. So it is behind until it has asked again, and applied what there
was; or until etcd has not answered for a while. Where the monotonic clock stood still as well, as in a host's
suspend, this goes unnoticed.

If etcd refuses these reads, or does not answer them although it answers other requests, the proxy stops
serving as well, and does not keep its lease alive: it cannot end the sessions of clients that are gone, so
that other proxies have to.

While etcd answers no request at all, clients are still served: `frontend.sessions` closes each connection
when its session's timeout has passed without a keep-alive.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, EtcdRefused, Txn
from proxy.log.follow.log_order import LogOrder
from proxy.log.follow.question import Question
from proxy.log.follow.standby_signs import Standby
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.status import Freshness
from proxy.state.machine import Machine
from proxy.support.environment import Clock
from proxy.support.tasks import together

log = logging.getLogger(__name__)

_INTERVAL = 1.0  # seconds between two questions
_TICK = 0.1  # seconds between two checks of what was applied since, while something is missing
_TIMEOUT = 2.0
_STILL = 3 * _INTERVAL  # seconds without a look after which this process has stood still
_NEVER = float("-inf")
_NOT_YET = "this proxy has not caught up with etcd yet"
_LATE = "etcd has entries that its watch has not shown in time"
_WRONG = "this proxy's state is not what the log says: loading the tree anew"


class Staleness:
    """Compares the state of one proxy with etcd, and decides whether clients may see it."""

    def __init__(
        self,
        etcd: Etcd,
        order: LogOrder,
        machine: Machine,
        watch_guard: WatchGuard,
        stopped: Callable[[str], None],
        limit: float,
        clock: Clock,
        standby: Standby | None = None,
    ) -> None:
        """`stopped` is called with the reason when clients may no longer see the state.

        `limit`: seconds in which the proxy has to catch up.
        """
        self._etcd = etcd
        self._order = order
        self._machine = machine
        self._watch_guard = watch_guard
        self._stopped = stopped
        self._limit = limit
        self._now = clock.monotonic
        self.standby = standby or Standby(etcd, order.keys, 0, clock)
        self._open: list[Question] = []  # answered, and not applied
        # Monotonic time since which questions have no answer, while other requests have.
        self._unanswered_since: float | None = None
        self._obstacle = ""
        self._recent = asyncio.Event()
        self._why_old = _NOT_YET  # "": it is recent
        self._unfit: Freshness | None = None  # WRONG, LOADING or GONE
        self._why_gone = ""
        #: Everything that was in etcd at this monotonic time is applied.
        self.caught_up_at = _NEVER
        self._ran = math.inf  # when this process last looked at the clock here
        self._woke: float | None = None  # since when it has stood still and does not know what is new
        #: Whether clients have to wait, since what the stream has delivered was not applied in time, or since
        #: this process has stood still.
        self.is_behind = False
        #: Called with `is_behind` when that changes.
        self.fell_behind: Callable[[bool], None] = lambda _is_behind: None

    @property
    def freshness(self) -> Freshness:
        """Whether clients may see the state."""
        return self._unfit or (Freshness.RECENT if self._recent.is_set() else Freshness.OLD)

    @property
    def why(self) -> str:
        """Why it is not RECENT."""
        if self._unfit is None:
            return self._why_old
        return self._why_gone or _WRONG

    @property
    def right(self) -> bool:
        """Whether the state is what the log makes, as far as this proxy knows."""
        return self._unfit is None

    @property
    def is_over(self) -> bool:
        """Whether the tree cannot be served any more."""
        return self._unfit is Freshness.GONE

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
        if not self.is_over:
            self._unfit = Freshness.WRONG
            self._stopped(_WRONG)

    def loads(self) -> None:
        """Another state is being loaded in place of one that is wrong."""
        if self._unfit is Freshness.WRONG:
            self._unfit = Freshness.LOADING

    def trust(self) -> None:
        """The state was loaded anew: clients may see it, unless it was distrusted meanwhile."""
        if self._unfit is Freshness.LOADING:
            self._unfit = None

    def give_up(self, why: str) -> None:
        """No client may see the state any more."""
        self._unfit, self._why_gone = Freshness.GONE, why
        self._stopped("the tree in etcd is no longer served")

    async def run(self) -> None:
        """Ask, and decide by the answers, for ever."""
        asking = [self._ask_always(), self.standby.run()] if self.standby.within else [self._ask_always()]
        try:
            await together([*asking, self._judge()])
        finally:
            self._watch_guard.stop()

    async def _ask_always(self) -> None:
        while True:
            asked = self._now()
            try:
                await self.ask()
            except EtcdError as error:
                log.debug("cannot ask etcd for the newest entries: %s", error)
                self.unanswered(asked, error)
            await asyncio.sleep(max(0.0, _INTERVAL - (self._now() - asked)))

    async def _judge(self) -> None:
        """Rarely while nothing is missing: each timer that wakes an idle process costs it 0.1 to 0.3 ms."""
        while True:
            self.judge()
            is_well = (
                self.freshness is Freshness.RECENT
                and not self._open
                and self._unanswered_since is None
                and self._woke is None
            )
            await asyncio.sleep(
                min(_INTERVAL, self._limit / 10, max(0.0, self.standby.left)) if is_well else _TICK
            )

    async def ask(self) -> None:
        """Ask once. Raises EtcdError."""
        self.look()
        question = Question(self._order, self._machine.applied, self._now())
        txns: Sequence[Txn] = question.txns
        while txns:
            txns = question.answered([await self._etcd.txn(txn, _TIMEOUT) for txn in txns])
        if self.right and question.left_out:
            self._watch_guard.left_out()
        self._open.append(question)
        self._unanswered_since = None
        self.judge()
        if not question.is_delivered:
            self._watch_guard.expect(partial(self._is_delivered, question), self._now() - question.began)

    def unanswered(self, asked: float, error: EtcdError) -> None:
        """A question that was asked then has failed."""
        self._obstacle = f"etcd does not say what is new: {error}"
        if self._woke is not None and self._now() - self._woke >= _TIMEOUT:
            self._woke = None
        refused = isinstance(error, EtcdRefused)
        if not refused and self._etcd.last_contact < asked and self._recent.is_set():
            self._unanswered_since = None  # etcd answers nothing else either
        elif self._unanswered_since is None:
            self._unanswered_since = asked

    def look(self) -> None:
        """Find out whether this process has stood still. Called before the first request of a turn.

        Clients wait at once. Whether their connections are closed is decided in a callback of its own: one of
        them is about to handle what it has received.
        """
        if self._has_stood_still():
            self._wait(is_behind=not self._why_old)
            asyncio.get_running_loop().call_soon(self._decide)

    def _has_stood_still(self) -> bool:
        now = self._now()
        stood_still, self._ran = now - self._ran > min(self._limit, _STILL), now
        if stood_still:
            self._woke = now
        return stood_still

    def judge(self) -> None:
        """Decide, by what was applied since, whether the state is recent."""
        self._has_stood_still()
        self._forget_applied()
        self._decide()

    def _forget_applied(self) -> None:
        """Drop the questions up to the newest one of which everything is applied."""
        applied = self._machine.whole_entries if self._open else {}
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].is_applied(applied):
                self.caught_up_at = self._open[index].began
                del self._open[: index + 1]
                break
        if self._woke is not None and self.caught_up_at >= self._woke:
            self._woke = None

    def _decide(self) -> None:
        overdue = [question for question in self._open if self._now() - question.began > self._limit]
        self._why_old = why = self._why_not_recent(overdue)
        self._wait(is_behind=bool(overdue or self._woke is not None) and not why)
        if self._recent.is_set() == (not why):
            return
        if not why:
            log.info("caught up with etcd")
            self._recent.set()
            return
        if not self.standby.is_silent:
            log.warning("not caught up with etcd for %.1f s", self.age)
        self._recent.clear()
        self._stopped(why)

    def _wait(self, *, is_behind: bool) -> None:
        """Let clients wait, or go on."""
        if self.is_behind == is_behind:
            return
        self.is_behind = is_behind
        if is_behind:
            log.warning("applying what etcd had %.1f s ago: clients wait", self.age)
        else:
            log.info("clients wait no longer for what is applied")
        self.fell_behind(is_behind)

    def _why_not_recent(self, overdue: Iterable[Question]) -> str:
        """An empty text if the proxy has caught up once, the stream delivers, and the standby lives."""
        if self.standby.is_silent:
            return self.standby.reason
        if self.cut_off:
            return self._obstacle
        if not all(question.is_delivered for question in overdue):
            return _LATE
        return "" if self.caught_up_at > _NEVER else _NOT_YET

    def _is_delivered(self, question: Question) -> bool:
        """Whether the watch has delivered what a question has found. After a dropped one all is applied."""
        return question not in self._open or question.is_delivered
