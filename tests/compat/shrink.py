"""Minimises a script that differs: fewer steps, by delta debugging."""

import time
from collections.abc import Callable

from tests.compat.script import Script

_SECONDS = 60.0


def shrink(script: Script, differs: Callable[[Script], bool]) -> Script:
    """Leave out ever smaller chunks, the last first, as long as the rest differs and there is time."""
    deadline = time.monotonic() + _SECONDS
    size = max(len(script) // 2, 1)
    while True:
        end = len(script)
        while end > 0:
            start = max(end - size, 0)
            candidate = [*script[:start], *script[end:]]
            if candidate and time.monotonic() < deadline and differs(candidate):
                script = candidate
            end = start
        if size == 1:
            return script
        size //= 2
