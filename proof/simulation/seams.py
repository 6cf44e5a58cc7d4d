"""Where zketcd's code uses clocks, chance, processes and the log of messages, and what stands there instead.

This is all of `proxy/` that a simulation replaces; tests/proof/simulation/test_seams.py finds every other use
of a clock or of chance and fails. Sockets are not in the list: a simulated host's event loop makes none.

clocks        `Clock`, for parts that take the host's by default: the simulated clock of the host that runs
chance        `Randomness` likewise: drawn from the seed
levels        which levels a release knows: those of the host, so that two releases can run side by side
OPEN          from the next level on a session's start spends two zxids, so that a level makes a difference
ACLs          the table of equal ACLs belongs to the world and holds them: an ACL that is in it costs fewer
              steps, and what the process did before, and its garbage collector, must not count
log           messages of `proxy` go into the trace; one with a traceback is a violation
more          what only some worlds replace
"""

import logging
import re
from asyncio import events
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from typing_extensions import override

from codec.jute import OPEN_ACL
from proof.simulation.environment import SeededRandomness, SimulatedClock
from proof.simulation.world import Host, World, running_host
from proxy.log.load import start
from proxy.state import capture, rights
from proxy.state.level import KNOWN
from proxy.state.machine import Machine
from proxy.state.proxy_requests import PROXY_REQUESTS
from proxy.support.environment import Clock, Randomness
from schema.entry import Kind, RequestFields

#: The level that a simulated next release knows besides today's, and all that it knows.
NEXT_LEVEL = max(KNOWN) + 1
NEXT_LEVELS = KNOWN | {NEXT_LEVEL}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _of_running_host(simulated: Callable[[Host], Any], name: str, *arguments: Any) -> Any:
    """What a clock, or a source of chance, of the host that runs gives."""
    return getattr(simulated(running_host()), name)(*arguments)


class _Levels(Collection[int]):
    """The levels that the release of the host that runs knows."""

    @override
    def __contains__(self, level: object) -> bool:
        return level in self._now()

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._now()))

    @override
    def __len__(self) -> int:
        return len(self._now())

    @staticmethod
    def _now() -> frozenset[int]:
        host = events._get_running_loop()
        return host.levels if isinstance(host, Host) else NEXT_LEVELS


class _Trace(logging.Handler):
    """Messages of the proxies, as lines of the trace."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    @override
    def emit(self, record: logging.LogRecord) -> None:
        host = events._get_running_loop()
        who = host.name if isinstance(host, Host) else "?"
        line = _ADDRESS.sub("", record.getMessage())
        self._world.trace(who, line)
        spoiled = isinstance(host, Host) and host.spoiled
        if record.exc_info and record.exc_info[1] is not None and not spoiled:
            self._world.on_error(f"{who}: {line}: {record.exc_info[1]!r}")


@contextmanager
def installed(world: World, more: Sequence[tuple[Any, str, Any]] = ()) -> Iterator[None]:
    """Replace everything that is listed above. Not to be nested. `more`: owners, names and replacements."""
    levels = _Levels()
    opening = PROXY_REQUESTS[Kind.OPEN]

    def open_session(machine: Any, request: RequestFields) -> Any:
        """A level of tomorrow: from there on a session's start spends two zxids."""
        changes = opening(machine, request)
        if machine.level >= NEXT_LEVEL:
            machine.zxid += 1
        return changes

    replaced: list[tuple[Any, str, Any]] = [
        *(
            (owner, name, staticmethod(partial(_of_running_host, simulated, name)))
            for owner, simulated in ((Clock, SimulatedClock), (Randomness, SeededRandomness))
            for name in vars(simulated)
            if not name.startswith("__")
        ),
        (rights, "_shared", {OPEN_ACL: rights.OPEN}),
        (capture.load, "__defaults__", (None, levels)),
        (start, "KNOWN", levels),
        (
            Machine.__init__,
            "__kwdefaults__",
            {**(Machine.__init__.__kwdefaults__ or {}), "known_levels": levels},
        ),
        *more,
    ]
    former = [(owner, name, vars(owner).get(name, getattr(owner, name))) for owner, name, _ in replaced]
    logger = logging.getLogger("proxy")
    handler = _Trace(world)
    logged = (logger.level, logger.propagate, logger.handlers[:])
    for owner, name, replacement in replaced:
        setattr(owner, name, replacement)
    PROXY_REQUESTS[Kind.OPEN] = open_session
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.handlers[:] = [handler]
    try:
        yield
    finally:
        PROXY_REQUESTS[Kind.OPEN] = opening
        for owner, name, original in former:
            setattr(owner, name, original)
        logger.level, logger.propagate, logger.handlers[:] = logged
