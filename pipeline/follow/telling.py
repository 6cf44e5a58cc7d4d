"""What the commands that follow say: progress on stderr, the position on stdout."""

import sys
import time


def tell(text: str) -> None:
    """One line of progress."""
    print(text, file=sys.stderr, flush=True)


class Status:
    """The line about the position, on stdout: at once when it is level or asked for, else now and then."""

    _EVERY = 5.0  # seconds

    def __init__(self) -> None:
        self._said = ""
        self._at = 0.0
        self._is_level = False

    def behind(self, zxid: int, count: int) -> None:
        """There is more to apply; `count` transactions at least."""
        if time.monotonic() - self._at > self._EVERY:
            self._say(f"at zxid 0x{zxid:x} ({count} behind)")
            self._is_level = False

    def level(self, zxid: int, *, now: bool = False) -> None:
        """All that there is, is applied. `now`: say it in any case."""
        if now or not self._is_level or time.monotonic() - self._at > self._EVERY:
            self._say(f"level at zxid 0x{zxid:x} (0 behind)", again=now)
            self._is_level = True

    def _say(self, line: str, *, again: bool = False) -> None:
        if line != self._said or again:
            print(line, flush=True)
            self._said = line
            self._at = time.monotonic()
