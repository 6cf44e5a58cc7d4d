"""Parses the options of the format "zookeeper" for a directory; zookeeper.py documents them."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import NamedTuple

from pipeline.formats import directory
from pipeline.formats.directory import Survey
from pipeline.formats.errors import REPAIRS
from pipeline.table import SESSIONS, TRANSACTIONS, ZNODES
from pipeline.traffic.arrow import TRAFFIC

SPLIT_BYTES = 16 << 20
TRAFFIC_TABLE = "traffic"
TABLES = {"znodes": ZNODES, "sessions": SESSIONS, "transactions": TRANSACTIONS, TRAFFIC_TABLE: TRAFFIC}
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


def local_path(path: str) -> str:
    """A path, or a file: URL, as an absolute path."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return str(Path(path).absolute())
