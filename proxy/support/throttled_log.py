"""A warning about a lasting problem: logged at once, then every 30 s, so that the log stays readable."""

import logging

from proxy.support.environment import HOST, Clock

_INTERVAL = 30.0  # seconds between two warnings of one object


class ThrottledLog:
    """Warnings of one kind, for one logger."""

    def __init__(self, log: logging.Logger, clock: Clock = HOST.clock) -> None:
        self._log = log
        self._clock = clock
        self._warned = -_INTERVAL  # monotonic time of the last warning

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning, or at level DEBUG if the last warning is less than 30 s old."""
        now = self._clock.monotonic()
        level = logging.DEBUG if now - self._warned < _INTERVAL else logging.WARNING
        if level == logging.WARNING:
            self._warned = now
        self._log.log(level, message, *arguments)
