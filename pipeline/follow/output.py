"""What the commands that follow say: progress on stderr, position on stdout, metrics, and exit codes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from cli.metrics_file import MetricsFile
from cli.output import one_line, say, show
from pipeline.errors import Failure
from proxy.support.metrics import of_copy
from schema.followed import Lag

DONE, STUCK, NOT_LEVEL = 0, 1, 3  # exit codes


class Stuck(Failure):
    """The source does not go on where the copy is: exit code STUCK."""


def print_progress(text: str) -> None:
    """Print one line of progress."""
    say(one_line(text))


async def within(
    timeout: float | None, following: Callable[[asyncio.Timeout], Coroutine[Any, Any, int]]
) -> int:
    """The exit code of what has so many seconds until it is level. It may lift the limit."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await following(limit)
    except TimeoutError:
        if not limit.expired():
            raise
        print_progress(f"not level within {timeout:g} s")
        return NOT_LEVEL


class Status:
    """The line about the position, on stdout: at once when level or requested, else at intervals.

    With `metrics` the same goes to a file for node_exporter's textfile collector, about once a second.
    """

    _EVERY = 5.0  # seconds
    _LATE = 10.0  # seconds: a copy that is younger counts as level
    _LEVEL_EVERY = 600.0
    _METRICS_EVERY = 1.0

    def __init__(self, metrics: str | None = None) -> None:
        self._printed = ""
        self._at = 0.0
        self._level_at: float | None = None  # monotonic: the clock may be set
        self._is_level = False
        self._metrics = None if metrics is None else MetricsFile(metrics)
        self._written = 0.0
        self._behind = self._zxid = 0
        self._reported = 0.0

    def behind(self, zxid: int, count: int, unit: str = "", *, age: float | None = None) -> None:
        """More has to be applied: at least `count` transactions, or another `unit`.

        `age`: all that the source had so many seconds ago is applied.
        """
        now = time.monotonic()
        if age is not None:
            self._level_at = now - age
        young = self._is_level and self._level_at is not None and now - self._level_at < self._LATE
        if now - self._at > self._EVERY and not young:
            last = "" if self._level_at is None else f", level {now - self._level_at:.0f} s ago"
            self._print(f"at zxid 0x{zxid:x} ({count}{unit and ' ' + unit} behind{last})")
            self._is_level = False
        self._write(zxid, count)

    def level(self, zxid: int, *, now: bool = False, age: float = 0.0) -> None:
        """All that the source had `age` seconds ago is applied. `now`: print the line in any case."""
        self._level_at = time.monotonic() - age
        if now or not self._is_level or time.monotonic() - self._at > self._LEVEL_EVERY:
            self._print(f"level at zxid 0x{zxid:x} (0 behind)", again=now)
            self._is_level = True
        self._write(zxid, 0)

    def _print(self, line: str, *, again: bool = False) -> None:
        if line != self._printed or again:
            show(line, flush=True)
            self._printed = line
            self._at = time.monotonic()

    async def report(self, to: Callable[[Lag], Awaitable[None]]) -> None:
        """Report the lag, about once a second. Until it is known, what another follower has said stays."""
        now = time.monotonic()
        if self._level_at is None or now - self._reported < self._METRICS_EVERY:
            return
        self._reported = now
        await to(self._lag())

    def end(self) -> None:
        """The tree is complete, or another follower says how far it is: the file must not get old."""
        if self._metrics is not None:
            self._metrics.remove()

    def _write(self, zxid: int, behind: int) -> None:
        self._zxid, self._behind = zxid, behind
        now = time.monotonic()
        if self._metrics is None or now - self._written < self._METRICS_EVERY:
            return
        self._written = now
        self._metrics.write(of_copy(zxid, self._lag()))

    def _lag(self) -> Lag:
        level = 0.0 if self._level_at is None else time.time() - (time.monotonic() - self._level_at)
        return Lag(int(level * 1000), self._behind, self._zxid)
