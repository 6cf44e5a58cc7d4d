"""Exceptions at any line of the code of a server: what a defect, or a lack of memory, does there.

The callbacks of one host run under a trace function, which counts the lines that are executed in `proxy`,
`schema` and `codec`, and raises at one of them. So each line counts as often as it runs, whichever callback,
task or slice of long work it is in.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import proxy
from proof.simulation.world import Host

_ROOT = Path(proxy.__file__).parents[1]  # where the code comes from: planted faults are in a copy of it
_SOURCES = tuple(f"{_ROOT / name}/" for name in ("proxy", "schema", "codec"))
# What has to work when all else fails: it has tests of its own.
_EXCEPT: tuple[str, ...] = (
    str(_ROOT / "proxy" / "support" / "last_resort.py"),
    str(_ROOT / "proxy" / "watchdog.py"),
)
# A defect there would fail the same request at all servers. An exception at one of them makes another state.
_STATE = f"{_ROOT / 'proxy' / 'state'}/"


class PlantedError(Exception):
    """A defect that was planted."""


class PlantedMemoryError(MemoryError):
    """A lack of memory that was planted."""


class Spoiler:
    """Raises one exception in the callbacks of a host."""

    def __init__(self, host: Host, lines: int, error: Exception, raised: Callable[[str], object]) -> None:
        """Raise after so many lines; `raised` takes the place."""
        self._host = host
        self._left = lines
        self._error = error
        self._raised = raised
        self._sources = _SOURCES
        self._except = _EXCEPT
        if not isinstance(error, MemoryError):
            self._sources, self._except = _SOURCES[:1], (*_EXCEPT, _STATE)
        host.spoiler = self._run

    def stop(self) -> None:
        """Raise nothing any more."""
        self._host.spoiler = None

    def _run(self, handle: asyncio.Handle) -> None:
        former = sys.gettrace()
        sys.settrace(self._call)
        try:
            handle._run()
        finally:
            sys.settrace(former)

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        return self._line if file.startswith(self._sources) and not file.startswith(self._except) else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and self._host.spoiler is not None:
            self._left -= 1
            if self._left <= 0:
                self.stop()
                self._host.spoiled = True
                place = Path(frame.f_code.co_filename).relative_to(_ROOT)
                self._raised(f"{place}:{frame.f_lineno} in {frame.f_code.co_name}")
                raise self._error
        return self._line
