"""How long something is, as people write it. Pure."""

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration_ms(text: str) -> int:
    """A duration such as 90s, 10m, 2h or 30d, in milliseconds. Raises ValueError."""
    found = re.fullmatch(r"([0-9]+)([smhd])", text)
    if found is None:
        raise ValueError(f"{text!r} is no duration such as 90s, 10m, 2h or 30d")
    return int(found[1]) * _UNITS[found[2]] * 1000
