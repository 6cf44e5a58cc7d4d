"""A warning about a lasting problem: logged at once, then every 30 s, so that the log stays readable.

Whatever a client without a session can cause is logged here: such lines must not fill the disk.
"""

import logging
import re
from collections.abc import Callable

from proxy.support.controls import shortened
from proxy.support.environment import HOST, Clock

_INTERVAL = 30.0  # seconds between two warnings of one kind
_KINDS = 4  # of one object in that time: what clients send may be in them
_PATHS = 256  # that have a log of their own
_LONGEST_PATH = 1024
_LONGEST_KIND = 1024  # characters of a message that make its kind: what clients send may be in it
# Numbers, addresses, names of incarnations. It looks at each word once: a client may send a long one.
_VARIABLE = re.compile(r"\b[^\W\d]*+\d\w*+")


class ThrottledLog:
    """Warnings for one logger. Those that differ in more than numbers are of another kind."""

    def __init__(self, log: logging.Logger, clock: Clock = HOST.clock) -> None:
        self._log = log
        self._clock = clock
        self._warned: dict[str, float] = {}  # when a warning of each kind was logged, in monotonic seconds

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning, or at level DEBUG if the last one of its kind is less than 30 s old."""
        self._say(logging.WARNING, message, *arguments)

    def info(self, message: str, *arguments: object) -> None:
        """As `warn`, at level INFO."""
        self._say(logging.INFO, message, *arguments)

    def error(self, message: str, *arguments: object, trace: BaseException | None = None) -> None:
        """As `warn`, at level ERROR. `trace`: has a traceback to be logged."""
        self._say(logging.ERROR, message, *arguments, trace=trace)

    def _say(
        self, severity: int, message: str, *arguments: object, trace: BaseException | None = None
    ) -> None:
        now = self._clock.monotonic()
        kind = _VARIABLE.sub("#", (message % arguments)[:_LONGEST_KIND])
        warned = self._warned = {
            known: time for known, time in self._warned.items() if now - time < _INTERVAL
        }
        level = logging.DEBUG
        if kind not in warned and len(warned) < _KINDS:
            level = severity
            warned[kind] = now
        self._log.log(level, message, *arguments, exc_info=trace)


class LogsByPath:
    """A log for each of the first paths that warnings are about, and one for all the others.

    Clients choose the paths, and could fill the memory with them.
    """

    def __init__(self, make: Callable[[], ThrottledLog]) -> None:
        self._make = make
        self._by_path: dict[str, ThrottledLog] = {}
        self._others = make()

    def warn(self, path: str, message: str, *arguments: object) -> None:
        """Log a warning about a path, which is the message's first argument."""
        self._of(path).warn(message, shortened(path, _LONGEST_PATH), *arguments)

    def _of(self, path: str) -> ThrottledLog:
        found = self._by_path.get(path)
        if found is None:
            if len(self._by_path) >= _PATHS or len(path) > _LONGEST_PATH:
                return self._others
            found = self._by_path[path] = self._make()
        return found
