"""Tells a meter when one part of the proxy calls another: where a stage begins within a callback or task.

The methods on which stages begin are replaced while a server is measured, so nothing in the proxy needs to
know of this. Whose work a callback or task as a whole is, the event loop knows (see `loop`).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from bench.stages.meter import DIGEST, MACHINE, OUTBOX, REPLY, WATCHES, Meter
from proxy.frontend import turns
from proxy.frontend.connection import Connection
from proxy.frontend.order import Order
from proxy.log.append.appender import Appender
from proxy.log.append.outbox import Outbox
from proxy.log.applier import Applier
from proxy.state.digest import Digest
from proxy.state.watches import WatchTable
from proxy.support.environment import Clock

METHODS: tuple[tuple[type, str, str], ...] = (
    (Outbox, "submit", OUTBOX),
    (Outbox, "submit_all", OUTBOX),
    (Outbox, "cut", OUTBOX),
    (Applier, "apply", MACHINE),
    (Digest, "touch", DIGEST),
    (Digest, "settle", DIGEST),
    (WatchTable, "fire", WATCHES),
    (Order, "answer_write", REPLY),
    (Connection, "flush", REPLY),
)
"""Class, method, and the stage that it begins."""
_WINDOW = 2  # Txns in flight, as on an etcd that is near


@contextmanager
def told(meter: Meter) -> Iterator[None]:
    """Let the methods tell the meter; for servers that are made meanwhile.

    How much of an entry is applied at a stretch, how many requests are taken in a turn, and how many Txns are
    in flight, depends on the time that things take, and counting makes it longer. That is left out: the same
    code has to give the same counts.
    """
    replaced: list[tuple[Any, str, Any]] = [
        (kind, name, _telling(kind.__dict__[name], stage, meter)) for kind, name, stage in METHODS
    ]
    replaced += [
        (Clock, "perf_counter", staticmethod(float)),
        (Appender, "window", _WINDOW),
        (turns, "PERIOD", 1 << 62),
    ]
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.enter_context(patch.object(owner, name, replacement))
        yield


def _telling(method: Callable[..., Any], stage: str, meter: Meter) -> Callable[..., Any]:
    enter = meter.enter

    @wraps(method)
    def telling(*args: Any, **kwargs: Any) -> Any:
        former = enter(stage)
        try:
            return method(*args, **kwargs)
        finally:
            enter(former)

    return telling
