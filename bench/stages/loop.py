"""An event loop that tells a meter whose work it runs: it knows the proxy's callbacks and tasks by module.

So nothing in the proxy needs to be changed, or to know of this. What comes from a module that is not named
here counts among the others.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import MethodType
from typing import Any, TypeVarTuple, Unpack

from typing_extensions import override

from bench.stages.meter import APPEND, BACKGROUND, FOLLOWER, MACHINE, OTHER, OUTBOX, OUTSIDE, REPLY, Meter

CALLBACKS = {
    "proxy.log.append.appender": OUTBOX,
    "proxy.log.applier": MACHINE,
    "proxy.frontend.connection": REPLY,
    "proxy.frontend.slow_reads": REPLY,
    "proxy.frontend.turns": REPLY,
}
"""Whose work a callback of the event loop is, by the module of its method."""
TASKS = {
    "proxy.log.append.appender": APPEND,
    "proxy.log.follow.log_follower": FOLLOWER,
    "proxy.etcd.leases": BACKGROUND,
    "proxy.etcd.status_poller": BACKGROUND,
    "proxy.frontend.session_timer": BACKGROUND,
    "proxy.log.append.incarnations": BACKGROUND,
    "proxy.log.log": BACKGROUND,
    "proxy.log.append.registration": BACKGROUND,
    "proxy.log.upkeep.node_expiry": BACKGROUND,
    "proxy.log.upkeep.snapshots": BACKGROUND,
    "proxy.log.follow.staleness": BACKGROUND,
}
"""And a task, by the module of its coroutine. Its own parts may enter other stages (see `parts`)."""

_Ts = TypeVarTuple("_Ts")


class MeteredLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, which notes whose work it runs."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self.set_debug(False)  # else there are more calls
        self.set_task_factory(self._task)

    @override
    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if isinstance(callback, MethodType) and callback.__module__.startswith("proxy."):
            stage = CALLBACKS.get(callback.__module__, OTHER)
            return super().call_soon(self._run, stage, callback, args, context=context)
        return super().call_soon(callback, *args, context=context)

    def _run(self, stage: str, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        former = self._meter.enter(stage)
        try:
            callback(*args)
        finally:
            self._meter.enter(former)

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        frame = getattr(coroutine, "cr_frame", None)  # what ends an asynchronous generator has none
        module = "" if frame is None else frame.f_globals["__name__"]
        stage = TASKS.get(module, OTHER) if module.startswith("proxy.") else OUTSIDE
        return asyncio.Task(_Metered(coroutine, stage, self._meter), loop=loop, **options)


class _Metered(Coroutine[Any, Any, Any]):
    """A coroutine whose every step is noted."""

    def __init__(self, inner: Coroutine[Any, Any, Any], stage: str, meter: Meter) -> None:
        self._inner = inner
        self._stage = stage
        self._meter = meter

    def send(self, value: Any) -> Any:
        former = self._meter.enter(self._stage)
        try:
            return self._inner.send(value)
        finally:
            self._meter.enter(former)

    def throw(self, *error: Any) -> Any:
        former = self._meter.enter(self._stage)
        try:
            return self._inner.throw(*error)
        finally:
            self._meter.enter(former)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()
