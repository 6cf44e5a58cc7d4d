"""Parses the options by which a log of zketcd is read; zketcd.py and zketcd_archive.py document them."""

from collections.abc import Mapping
from typing import NamedTuple, Self

EARLIEST, LATEST = "earliest", "latest"


class LogOptions(NamedTuple):
    """How a log of zketcd is read, be it in etcd or in an archive."""

    results: bool  # replay the log for what became of each request
    starting: str  # where a stream begins
    most: int | None  # entries in one batch of a stream
    lossy: bool  # pass over what is lost
    share: int  # of one task

    @classmethod
    def of(cls, given: Mapping[str, str], share: str, default: int, *, results: bool) -> Self:
        """Parse the options. `share` names that of a task, with its default; `results`: its default.

        Raises ValueError for invalid ones.
        """
        starting = given.get("startingOffsets", EARLIEST)
        if starting not in (EARLIEST, LATEST):
            raise ValueError(f"startingOffsets is {EARLIEST} or {LATEST}, not {starting!r}")
        each = number(given, share, default)
        if not each:
            raise ValueError(f"{share} must be above 0")
        most = number(given, "maxEntriesPerTrigger", 0)
        return cls(
            truth(given, "results", results),
            starting,
            most or None,
            not truth(given, "failOnDataLoss", True),
            each,
        )


def truth(given: Mapping[str, str], name: str, default: bool) -> bool:
    """An option that is true or false. Raises ValueError."""
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {text!r}")
    return text == "true"


def number(given: Mapping[str, str], name: str, default: int) -> int:
    """An option that is a whole number. Raises ValueError."""
    text = given.get(name, str(default))
    if not text.isdigit():
        raise ValueError(f"{name} must be a whole number, not {text!r}")
    return int(text)
