"""The meaning of a path in ClickHouse's replicated tables, by its form alone.

A ReplicatedMergeTree table is a subtree with fixed names: `log/log-N` (what all replicas are to do),
`blocks/HASH` (deduplication), `block_numbers/PARTITION/block-N` (one number an insert), and for each replica
`replicas/NAME/queue/queue-N` and `replicas/NAME/parts/PART`. A part's name is PARTITION_MIN_MAX_LEVEL, with
one more number after a mutation (MergeTreePartInfo): level 0 is an insert, a higher one a merge. There is no
underscore in PARTITION.
"""

import re
from typing import NamedTuple

LOG = "log"
BLOCK = "block"
BLOCK_NUMBER = "block number"
QUEUE = "queue"
PART = "part"
REPLICA = "replica"
OTHER = "other"

INSERT = "insert"
MERGE = "merge"
MUTATION = "mutation"


class Shape(NamedTuple):
    """The meaning of a path."""

    table: str  # the path of the table
    kind: str
    replica: str | None = None
    part: str | None = None
    change: str | None = None  # the change that makes such a part


_PATH = re.compile(
    r"""(?P<table>/.+?)/
    (?: log/log-[0-9]*
      | (?P<block>(?:async_)?blocks|deduplication_hashes)/[^/]+
      | (?P<number>block_numbers)(?:/.+)?
      | replicas/(?P<replica>[^/]+)
        (?:/(?: (?P<queue>queue)/.+ | parts/(?P<part>[^/]+)(?:/.+)? | .+ ))?
      | (?P<other>mutations|quorum|leader_election|temp|alter_partition_version)(?:/.+)?
    )""",
    re.VERBOSE,
)
_PART = re.compile(r"[^_]+_[0-9]+_[0-9]+_(?P<level>[0-9]+)(?P<mutation>_[0-9]+)?")


def shape_of(path: str) -> Shape | None:
    """The meaning of a path; None if it does not belong to a table."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    table = found["table"]
    if part := found["part"]:
        return Shape(table, PART, found["replica"], part, _change(part))
    if replica := found["replica"]:
        return Shape(table, QUEUE if found["queue"] else REPLICA, replica)
    if found["block"]:
        return Shape(table, BLOCK)
    if found["number"]:
        return Shape(table, BLOCK_NUMBER)
    return Shape(table, OTHER if found["other"] else LOG)


def _change(part: str) -> str | None:
    found = _PART.fullmatch(part)
    if found is None:
        return None
    if found["mutation"]:
        return MUTATION
    return MERGE if int(found["level"]) else INSERT
