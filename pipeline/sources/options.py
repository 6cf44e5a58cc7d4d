"""Parses the options of the format "zookeeper" for a directory; zookeeper.py documents them."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import NamedTuple, Self

from pipeline.formats import directory
from pipeline.formats.directory import Survey
from pipeline.formats.errors import REPAIRS
from pipeline.table import SESSIONS, TRANSACTIONS, ZNODES
from pipeline.traffic.table import TRAFFIC

SPLIT_BYTES = 16 << 20
TRAFFIC_TABLE = "traffic"
TABLES = {
    "znodes": ZNODES,
    "sessions": SESSIONS,
    "transactions": TRANSACTIONS,
    TRAFFIC_TABLE: TRAFFIC,
}
#: The tables that are made of the log alone.
LOG_TABLES = ("transactions", TRAFFIC_TABLE)


class Options(NamedTuple):
    """The parsed options."""

    path: str
    table: str
    log_path: str | None
    snapshot: str | None
    repair: frozenset[str]
    split_bytes: int
    most_bytes: int | None = None  # of the logs in a batch of a stream

    def survey(self) -> Survey:
        """The directory's state. Raises BadFile."""
        return directory.survey(self.path, self.log_path, chosen=self.snapshot, repair=self.repair)


def options_of(given: MutableMapping[str, str]) -> Options:
    """Parse the options. Raises ValueError for invalid ones."""
    if "path" not in given:
        raise ValueError('the format "zookeeper" needs a directory: .load("/path")')
    table = given.get("table", "znodes")
    if table not in TABLES:
        raise ValueError(f"there is no table {table}, but {', '.join(TABLES)}")
    repair = frozenset(filter(None, given.get("repair", "").split(",")))
    if repair - REPAIRS:
        raise ValueError(f"repair is {', '.join(sorted(REPAIRS))}, not {', '.join(sorted(repair - REPAIRS))}")
    split_bytes = int(given.get("splitBytes", SPLIT_BYTES))
    if split_bytes <= 0:
        raise ValueError("splitBytes must be above 0")
    most = int(given.get("maxBytesPerTrigger", 0))
    if most < 0:
        raise ValueError("maxBytesPerTrigger must be above 0")
    log_path = given.get("dataLogDir")
    return Options(
        local_path(given["path"]),
        table,
        None if log_path is None else local_path(log_path),
        given.get("snapshot"),
        repair,
        split_bytes,
        most or None,
    )


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


def local_path(path: str) -> str:
    """A path, or a file: URL, as an absolute path."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return str(Path(path).absolute())


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
