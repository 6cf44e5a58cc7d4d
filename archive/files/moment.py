"""How a moment is written: a time, a zxid, a position, how long ago, or now.

2026-11-23T03:12, 2026-11-23T03:12:05.250Z   a time; UTC without a zone
0x500000123                                   a zxid
48213                                         a position: etcd's revision
90s, 10m, 2h, 3d                              so long ago
now                                           the newest state
"""

import re
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from proxy.options.archive import duration_ms

_AGO = re.compile(r"[0-9]+[smhd]")


class By(Enum):
    """What a moment is given by."""

    TIME = "clock"
    ZXID = "zxid"
    POSITION = "position"
    NOW = "now"


class Moment(NamedTuple):
    """A moment that a user asks for: the last state that is not after it."""

    by: By
    value: int  # times in milliseconds since 1970
    text: str

    def __str__(self) -> str:
        return self.text


NOW = Moment(By.NOW, 0, "now")


def moment(text: str, now_ms: int) -> Moment:
    """Raises ValueError."""
    if text == "now":
        return NOW
    if text.isdigit() and text.isascii():
        return Moment(By.POSITION, int(text), f"position {text}")
    if re.fullmatch(r"0x[0-9a-fA-F]+", text):
        return zxid(int(text, 16))
    if _AGO.fullmatch(text):
        return time(now_ms - duration_ms(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no moment: a time such as 2026-11-23T03:12, a zxid such as 0x500000123, a position"
            " such as 48213, how long ago such as 10m, or now"
        ) from None
    return time(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))


def zxid(value: int) -> Moment:
    """The state after this request."""
    return Moment(By.ZXID, value, f"zxid 0x{value:x}")


def time(clock: int) -> Moment:
    """A time as a moment."""
    return Moment(By.TIME, clock, shown(clock))


def shown(clock: int) -> str:
    """Milliseconds since 1970 as people read them."""
    try:
        return datetime.fromtimestamp(clock / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (OSError, OverflowError, ValueError):  # outside the years that the platform has
        return str(clock)
