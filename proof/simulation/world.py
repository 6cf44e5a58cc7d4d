"""Simulated time: event loops that share one clock, one queue and one seed, run in one thread.

Each host of a simulation (a proxy, its snapshot writer, the clients, etcd) has a loop of its own, so that it
can be paused, killed and given a clock that differs from the others'. Nothing here waits: when nothing is
ready, the time jumps to the next timer. What runs in which order depends on the seed alone: tasks and futures
hash by a count, since asyncio keeps them in sets.
"""

import asyncio
import hashlib
import heapq
import random
import traceback
from asyncio import events, futures
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

from typing_extensions import override

from proxy.state.level import KNOWN

#: Seconds since 1970 at which a simulation begins.
EPOCH = 1_700_000_000.0
_TRACE_LINES = 400  # that are kept to be shown
_LIVELOCK = 400_000  # callbacks without any progress of time
_RESOLUTION = 1e-6  # seconds; a shorter wait could be lost in the rounding of a host's clock, again and again
_STRETCHED = 30.0  # seconds between two looks of what looks periodically, while the world is quiet
_SHORT = 0.1  # seconds; a shorter sleep is no period


# What `asyncio.sleep` has called at its end.
_AWAKE = futures._set_result_unless_cancelled  # type: ignore[attr-defined]


class _Future(asyncio.Future):  # type: ignore[type-arg]
    """A future whose place in a set does not depend on its address."""

    def __init__(self, *, loop: "Host") -> None:
        self.order = loop.world.count()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.order


class _Task(asyncio.Task):  # type: ignore[type-arg]
    """The same of a task."""

    def __init__(self, coroutine: Any, *, loop: "Host", **options: Any) -> None:
        self.order = loop.world.count()
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self.order


class World:
    """The clock, the queue of what is to run, and the trace of one simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0  # seconds
        self.lines: deque[str] = deque(maxlen=_TRACE_LINES)
        self.callbacks = 0
        #: Until this time of the world no fault happens and none lasts: see `Proxy`.
        self.quiet_until = 0.0
        #: What went wrong in a way that no fault explains.
        self.on_error: Callable[[str], None] = lambda _what: None
        self._digest = hashlib.blake2b(digest_size=16)
        self._count = 0
        self._ready: deque[tuple[Host, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, Host, asyncio.Handle]] = []
        self._stopped = False

    def random(self, name: str) -> random.Random:
        """A source of randomness of its own for each purpose, so that one more draw changes nothing else."""
        return random.Random(f"{self.seed}/{name}")

    def count(self) -> int:
        """A number that has not been used before."""
        self._count += 1
        return self._count

    def trace(self, who: str, what: str) -> None:
        """Note something that happened: it is shown beside a violation, and makes the run's fingerprint."""
        line = f"{self.now:14.6f} {who:10} {what}"
        self._digest.update(line.encode(errors="surrogateescape") + b"\n")
        self.lines.append(line)

    @property
    def fingerprint(self) -> str:
        """A hash of all lines of the trace: equal for equal runs."""
        return self._digest.hexdigest()

    @property
    def is_quiet(self) -> bool:
        """Whether every periodic look would find what the last one has found."""
        return self.now < self.quiet_until

    def stretched(self, seconds: float, most: float = _STRETCHED) -> float:
        """How long to sleep in place of `seconds`, the period of a look that finds nothing while it is quiet.

        A multiple of the period, and no longer than `most` or the quiet lasts: so the looks after that come
        at the times at which they would have come.
        """
        left = min(self.quiet_until - self.now, most)
        return seconds * max(1, int(left / seconds))

    def stop(self) -> None:
        """Let `run` return after the callback that runs now."""
        self._stopped = True

    def push(self, host: "Host", handle: asyncio.Handle) -> None:
        """Run a handle of a host as soon as what came before has run."""
        self._ready.append((host, handle))

    def push_at(self, when: float, host: "Host", handle: asyncio.Handle) -> None:
        """Run a handle at a time of this world."""
        heapq.heappush(self._timers, (when, self.count(), host, handle))

    def run(self, until: float) -> None:
        """Run everything that is due before a time, or until `stop`; the world's time is `until` then."""
        self._stopped = False
        ready, timers = self._ready, self._timers
        current: Host | None = None
        former = events._get_running_loop()  # a test's
        stuck = 0
        try:
            while not self._stopped:
                if not ready:
                    if not timers or timers[0][0] > until:
                        self.now = max(self.now, until)
                        return
                    when, order, host, handle = heapq.heappop(timers)
                    if handle._cancelled:
                        continue
                    if when > self.now:
                        self.now = when
                        stuck = 0
                else:
                    order = 0
                    host, handle = ready.popleft()
                    if handle._cancelled:
                        continue
                if host.paused or host.dead:
                    if not host.dead:
                        host.withheld.append(handle)
                    continue
                if host.busy_until > self.now:
                    # In the order of their arrival: work in slices leaves the others their turns.
                    heapq.heappush(timers, (host.busy_until, order or self.count(), host, handle))
                    continue
                stuck += 1
                if stuck > _LIVELOCK:
                    raise RuntimeError(f"time stands still at {self.now}: {handle!r} of {host.name}")
                if host is not current:
                    current = host
                    events._set_running_loop(host)
                self.callbacks += 1
                if host.spoiler is None:
                    handle._run()
                else:
                    host.spoiler(handle)
        finally:
            events._set_running_loop(former)


class Host(asyncio.BaseEventLoop):
    """One process with an event loop, on a clock of its own."""

    def __init__(self, world: World, name: str, *, skew: float = 0.0, drift: float = 0.0) -> None:
        """`skew`: seconds that its wall clock is ahead; `drift`: seconds that its clocks gain each second."""
        super().__init__()
        self.world = world
        self.name = name
        self.skew = skew
        self.paused = False
        self.dead = False
        self.withheld: list[asyncio.Handle] = []
        self.random = world.random(f"host {name} {world.count()}")
        #: What listens for connections here: called with each of them.
        self.listener: Callable[[Any], object] | None = None
        #: Seconds that each look at the stopwatch costs: how slow this host is.
        self.burn = 0.0
        #: The world's time until which it is busy with what it has run.
        self.busy_until = 0.0
        #: Called when a fault kills the host, or its process ends.
        self.on_kill: Callable[[], None] = lambda: None
        #: Runs the callbacks, to raise something in one of them; None: nothing does.
        self.spoiler: Callable[[asyncio.Handle], None] | None = None
        #: Something was raised: what follows from that is no mistake, see `Proxy.process_ends`.
        self.spoiled = False
        #: How long a sleep of so many seconds takes while the world is quiet.
        self.stretched: Callable[[float], float] = lambda delay: delay
        #: The levels that its release knows.
        self.levels = KNOWN
        self._rate = 1.0 + drift
        self._boot = 1000.0 + self.random.random() * 1000.0
        self._tasks: dict[_Task, None] = {}

    # -- its clocks ------------------------------------------------------------------------------------------

    @override
    def time(self) -> float:
        return self._boot + self.world.now * self._rate

    def wall(self) -> float:
        """Seconds since 1970, as far as this host knows."""
        return EPOCH + self.world.now * self._rate + self.skew

    def stopwatch(self) -> float:
        """A clock for durations, which advances while a callback runs."""
        if not self.burn:
            return self.time()
        self.busy_until = max(self.world.now, self.busy_until) + self.burn
        return self._boot + self.busy_until * self._rate

    # -- faults ----------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop running anything, as SIGSTOP does. Its clocks advance."""
        self.paused = True

    def resume(self) -> None:
        """Continue, with all that has become due."""
        self.paused = False
        withheld, self.withheld = self.withheld, []
        for handle in withheld:
            self.world.push(self, handle)

    def kill(self) -> None:
        """End at whatever await each task has come to; nothing of it runs any more."""
        self.dead = True
        self.listener = None
        self.withheld.clear()
        tasks, self._tasks = self._tasks, {}
        former = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for task in tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _drop(task)
        finally:
            events._set_running_loop(former)

    # -- asyncio's side --------------------------------------------------------------------------------------

    def __del__(self) -> None:
        """There is nothing to be closed."""

    @override
    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self.world.push(self, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    @override
    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        delay = max(delay, _RESOLUTION) if delay > 0 else delay
        if delay >= _SHORT and self.world.is_quiet and callback is _AWAKE:
            delay = self.stretched(delay)
        return self.call_at(self.time() + delay, callback, *args, context=context)

    @override
    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead:
            due = (when - self._boot) / self._rate
            self.world.push_at(max(due, self.world.now), self, handle)
        return handle

    def call_soon_at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback at a time of the world: what comes from outside does not know this host's clock."""
        if not self.dead:
            self.world.push_at(when, self, asyncio.Handle(callback, args, self))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: `World.run` drops it."""

    @override
    def create_future(self) -> Any:
        return _Future(loop=self)

    @override
    def create_task(self, coro: Any, **options: Any) -> Any:
        task = _Task(coro, loop=self, **options)
        if not self.dead:
            self._tasks[task] = None
            task.add_done_callback(self._forget)
        return task

    def _forget(self, task: Any) -> None:
        self._tasks.pop(task, None)

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future = self.create_future()

        def run() -> None:
            if future.done():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - it is the caller's, as from a thread
                future.set_exception(error)

        self.call_later(0.001, run)
        return future

    @override
    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        """Listen: only listening sockets are watched here."""
        (listener,) = args

        def came(connection: Any) -> None:
            listener.waiting.append(connection)
            callback(listener)

        self.listener = came

    @override
    def remove_reader(self, fd: Any) -> bool:
        self.listener = None
        return True

    @override
    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **_options: Any) -> Any:
        sock.transport.open(protocol_factory())

    @override
    def get_debug(self) -> bool:
        return False

    @override
    def is_running(self) -> bool:
        return events._get_running_loop() is self

    @override
    def is_closed(self) -> bool:
        return False

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        handler = self.get_exception_handler()
        (self.default_exception_handler if handler is None else partial(handler, self))(context)

    @override
    def default_exception_handler(self, context: dict[str, Any]) -> None:
        if self.spoiled:
            return
        error = context.get("exception")
        # asyncio's own words for it have addresses in them.
        where = traceback.extract_tb(error.__traceback__)[-1] if error is not None else None
        at = f" in {where.name}, line {where.lineno}" if where is not None else ""
        self.world.on_error(f"{self.name}: an exception in a callback{at}: {error!r}")


def _drop(task: _Task) -> None:
    """Unwind a task where it stands. What its `finally` clauses do has no effect, since its host is dead."""
    coroutine = task.get_coro()
    assert coroutine is not None  # it is not eager
    try:
        coroutine.close()
    except RuntimeError:
        pass  # it awaits something while it is unwound, which will not run
    except Exception:  # noqa: BLE001 - whatever it is, the process is gone
        pass


def running_host() -> Host:
    """The host whose code runs now."""
    host = events._get_running_loop()
    assert isinstance(host, Host), "code of a simulated host runs outside of it"
    return host
