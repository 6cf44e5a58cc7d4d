"""A tree that `verify` compares or `inspect` looks at."""

from typing import NamedTuple

from pipeline.jobs.tables import Directory
from pipeline.running.table import Table


class Side(NamedTuple):
    """A tree."""

    name: str
    znodes: Table
    on_the_wire: bool  # as clients see it: containers and TTL nodes look like others
    directory: Directory | None  # where it is one
    # Before the walk of a running ensemble: a larger one in a node tells of writes meanwhile.
    zxid: int | None
