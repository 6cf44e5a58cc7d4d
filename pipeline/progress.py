"""The progress of a long command, on stderr: readable lines, or lines of JSON for scripts (--json).

On a terminal one line is rewritten; elsewhere a new one is printed every few seconds. docs/pipeline.md
documents the fields of the JSON lines; they must not change.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

from cli.output import visible

EVERY = 3.0  # seconds, between lines
EVERY_ON_A_TERMINAL = 0.5
_WIDTH = 78
_STEP = 1000  # bytes of a kB, as disks count them
_HOUR, _MINUTE = 3600, 60


class Count:
    """How many rows of how many bytes are done, of all parts that report; safe between threads."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, int]] = {}

    def add(self, rows: int, size: int) -> None:
        """Add to the count of the part that runs here."""
        done = self._parts.get("", (0, 0))
        self._parts[""] = (done[0] + rows, done[1] + size)

    def update(self, part: str, rows: int, size: int) -> None:
        """So many in all of one part. A part that runs again counts once."""
        self._parts[part] = (rows, size)

    def total(self) -> tuple[int, int]:
        """(rows, bytes)."""
        parts = list(self._parts.values())
        return sum(rows for rows, _ in parts), sum(size for _, size in parts)


class Reporter:
    """Writes messages for the user while a command runs."""

    def __init__(self, *, as_json: bool = False, out: TextIO | None = None) -> None:
        self._json = as_json
        self._out = out

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "Reporter":
        """The reporter that the command line requests."""
        return cls(as_json=arguments.json)

    def message(self, text: str) -> None:
        """Write one line."""
        self._write(json.dumps({"event": "message", "text": text}) if self._json else visible(text))

    @contextlib.contextmanager
    def step(self, what: str, rows: int | None = None, unit: str = "znodes") -> Iterator[Count]:
        """While the body runs, report its count; `rows` is about how many rows there are in all."""
        count = Count()
        started = time.monotonic()
        ended = threading.Event()

        def line(*, done: bool) -> str:
            facts = facts_of(what, unit, count.total(), rows, time.monotonic() - started, done=done)
            return json.dumps(facts) if self._json else sentence_of(facts)

        terminal = not self._json and self._stream.isatty()

        def watch() -> None:
            while not ended.wait(EVERY_ON_A_TERMINAL if terminal else EVERY):
                if terminal:
                    self._write(f"\r{line(done=False):<{_WIDTH}}", end="")
                else:
                    self._write(line(done=False))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield count
        finally:
            ended.set()
            watcher.join()
            if terminal:
                self._write(f"\r{'':<{_WIDTH}}\r", end="")
        self._write(line(done=True))

    @property
    def _stream(self) -> TextIO:
        return self._out or sys.stderr

    def _write(self, text: str, end: str = "\n") -> None:
        # A full disk under the progress log must not stop a migration.
        with contextlib.suppress(OSError):
            print(text, end=end, file=self._stream, flush=True)


def facts_of(
    what: str, unit: str, counted: tuple[int, int], expected: int | None, seconds: float, *, done: bool
) -> dict[str, Any]:
    """The fields of a line of JSON. `seconds_left` is null if it cannot be estimated."""
    rows, size = counted
    left = None
    if done:
        left = 0.0
    elif expected and rows:
        left = round(max(0.0, seconds * (expected - rows) / rows), 1)
    return {
        "event": "progress",
        "step": what,
        "count": rows,
        "unit": unit,
        "bytes": size,
        "expected": expected,
        "seconds": round(seconds, 1),
        "seconds_left": left,
        "done": done,
    }


def sentence_of(facts: dict[str, Any]) -> str:
    """The same as a readable sentence."""
    counted = f"{facts['count']} {facts['unit']}, {_size(facts['bytes'])}"
    if facts["done"]:
        return f"{facts['step']}: done in {facts['seconds']} s, {counted}"
    if facts["expected"] is not None:
        counted = f"{facts['count']} of about {facts['expected']} {facts['unit']}, {_size(facts['bytes'])}"
    after = f"after {_time(facts['seconds'])}"
    if facts["seconds_left"] is not None:
        after += f", about {_time(facts['seconds_left'])} left"
    return f"{facts['step']}: {counted} {after}"


def _size(size: float) -> str:
    for name in ("bytes", "kB", "MB", "GB"):
        if size < _STEP:
            return f"{size:.0f} {name}"
        size /= _STEP
    return f"{size:.1f} TB"


def _time(seconds: float) -> str:
    if seconds >= _HOUR:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _MINUTE:.0f} min" if seconds >= 2 * _MINUTE else f"{seconds:.0f} s"
