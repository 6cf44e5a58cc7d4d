"""A warning about a lasting problem: logged at once, then every 30 s, so that the log stays readable."""

import logging
import time

_INTERVAL = 30.0  # seconds between two lines on the same trouble


class Repeated:
    """One kind of trouble of one logger."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told = -_INTERVAL

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning, or if one was logged lately only what debugging wants to see."""
        now = time.monotonic()
        level = logging.DEBUG if now - self._told < _INTERVAL else logging.WARNING
        if level == logging.WARNING:
            self._told = now
        self._log.log(level, message, *arguments)
