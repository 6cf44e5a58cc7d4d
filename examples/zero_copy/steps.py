"""What each kind of step costs: an insert, a fetch, a merge. A host does several at once over one session."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from codec.client import Request
from lab.client.session import Session, Watch

T = TypeVar("T")

#: Microseconds -> how often.
Latencies = Counter[int]


class Step:
    """One thing that a host does. Its requests go to the session and are counted.

    A step that continues after a lost connection gets the next session as its `session`.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.requests = 0
        self.counts = True
        """False for a step that came to nothing."""

    async def call(self, request: Request[T]) -> T:
        """See Session.call."""
        self.requests += 1
        return await self.session.call(request)

    async def watched(self, request: Request[T]) -> tuple[T, Watch]:
        """See Session.watched."""
        self.requests += 1
        return await self.session.watched(request)

    async def multi(self, *parts: Request[Any]) -> list[Any]:
        """See Session.multi."""
        self.requests += 1
        return await self.session.multi(*parts)


class Steps:
    """All steps that were done, by kind."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._latencies: defaultdict[str, Latencies] = defaultdict(Counter)

    @contextmanager
    def step(self, kind: str, session: Session) -> Iterator[Step]:
        """Count what is done in the `with`, unless it ends by an exception or does not count."""
        step = Step(session)
        begun = time.perf_counter_ns()
        yield step
        if not step.counts:
            return
        self.done[kind] += 1
        self._requests[kind] += step.requests
        self._latencies[kind][(time.perf_counter_ns() - begun) // 1000] += 1

    def latencies(self) -> dict[str, Latencies]:
        """How long each kind took; no sessions."""
        return {kind: each for kind, each in sorted(self._latencies.items()) if kind != "session"}

    def facts(self) -> dict[str, float]:
        """Figures for a report: how many, and requests for each."""
        found: dict[str, float] = {}
        for kind, done in sorted(self.done.items()):
            found[f"{kind}: done"] = done
            found[f"{kind}: requests for one"] = self._requests[kind] / done
        return found
