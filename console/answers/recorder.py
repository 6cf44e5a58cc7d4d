"""What the traffic was: rates and latencies of the last hour, so that a page that opens has a history."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from proxy.admin.facts import Facts
from proxy.support.latency import Histogram

EVERY = 2.0  # seconds between two samples
_KEPT = 1800  # samples: an hour
_POINTS = 90  # of one answer


class _Counters(NamedTuple):
    """Counters that only grow."""

    seconds: float
    reads: Histogram
    writes: Histogram
    applied: int
    events: int


class Sample(NamedTuple):
    """The traffic between two moments. Rates are per second; times are nanoseconds."""

    reads: float
    writes: float
    readTime: int | None
    writeTime: int | None
    applied: float
    events: float


class Recorder:
    """Notes the counters of one proxy now and then."""

    def __init__(self, facts: Facts) -> None:
        self._subject = facts.subject
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._before: _Counters | None = None

    async def run(self) -> None:
        """Take samples until it is cancelled."""
        while True:
            self.take(asyncio.get_running_loop().time())
            await asyncio.sleep(EVERY)

    def take(self, seconds: float) -> None:
        """Take a sample. `seconds`: a monotonic clock."""
        subject = self._subject
        latency = subject.latency
        now = _Counters(
            seconds,
            latency.total(updates=False),
            latency.total(updates=True),
            subject.log_status().stats.applied_bytes,
            subject.counters.notifications,
        )
        before, self._before = self._before, now
        if before is None:
            return
        span = max(0.001, now.seconds - before.seconds)
        reads, writes = now.reads.since(before.reads), now.writes.since(before.writes)
        self._samples.append(
            Sample(
                reads.count / span,
                writes.count / span,
                reads.quantile(0.99) or None,
                writes.quantile(0.99) or None,
                (now.applied - before.applied) / span,
                (now.events - before.events) / span,
            )
        )

    def history(self, seconds: int) -> dict[str, Any]:
        """The samples of so many last seconds, several of them together if they are many."""
        wanted = min(_KEPT, max(1, int(seconds / EVERY)))
        together = -(-wanted // _POINTS)
        samples = list(self._samples)[-wanted:]
        # The last group ends with the newest sample; the first one may have fewer.
        ends = range(len(samples), 0, -together)
        found = [_merged(samples[max(0, end - together) : end]) for end in ends][::-1]
        return {
            "everyMs": int(EVERY * together * 1000),
            "points": -(-wanted // together),
            **{name: [getattr(each, name) for each in found] for name in Sample._fields},
        }


def _merged(samples: Sequence[Sample]) -> Sample:
    """Means of rates, and the largest of times: a slow moment is not averaged away."""
    read = [each.readTime for each in samples if each.readTime is not None]
    write = [each.writeTime for each in samples if each.writeTime is not None]
    return Sample(
        sum(each.reads for each in samples) / len(samples),
        sum(each.writes for each in samples) / len(samples),
        max(read, default=None),
        max(write, default=None),
        sum(each.applied for each in samples) / len(samples),
        sum(each.events for each in samples) / len(samples),
    )
