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

    def at(self, zxid: int) -> None:
        """There may be more to write."""
        if time.monotonic() - self._at > self._EVERY:
            self._say(f"at zxid 0x{zxid:x}")

    def behind(self, zxid: int, count: int) -> None:
        """There is more to apply; `count` transactions at least."""
        if time.monotonic() - self._at > self._EVERY:
            self._say(f"at zxid 0x{zxid:x} ({count} behind)")

    def level(self, zxid: int, *, now: bool = False) -> None:
        """All that there is, is applied. `now`: say it in any case."""
        if now or self._at == 0.0 or time.monotonic() - self._at > self._EVERY:
            self._say(f"level at zxid 0x{zxid:x} (0 behind)", again=now)

    def _say(self, line: str, *, again: bool = False) -> None:
        if line != self._said or again:
            print(line, flush=True)
            self._said = line
            self._at = time.monotonic()
