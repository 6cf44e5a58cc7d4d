"""A tree that `verify` compares or `inspect` reads."""

from typing import NamedTuple

from pipeline.jobs.tables import Directory
from pipeline.running.table import Table


class Side(NamedTuple):
    """A tree."""

    name: str
    znodes: Table
    on_the_wire: bool  # as clients see it: containers and TTL nodes look like other nodes
    directory: Directory | None  # None: it is not one
    # Before the walk of a running ensemble: a larger one in a node shows writes during the walk.
    zxid: int | None
