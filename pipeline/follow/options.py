"""How a tree is followed, whatever is followed."""

from typing import NamedTuple

from pipeline.etcd.limits import Limits
from proxy.etcd.status_poller import ReadMetrics
from proxy.support.environment import HOST, Clock


class Options(NamedTuple):
    """The options of the command line, and limits."""

    overwrite: bool = False
    until_level: bool = False
    finish: bool = False
    keep_sessions: bool = False  # of a ZooKeeper; a zketcd's are always kept
    zxid: int = 0  # level and finished mean at least this one
    timeout: float | None = None  # seconds until the tree has to be level
    limits: Limits = Limits()
    metrics: str | None = None  # a file for the age of the tree
    address: str = ""  # of the tree's etcd, for people who find the source sealed
    standby_within: int = 0  # seconds for which the source's proxies may serve without a sign of life
    read_metrics: ReadMetrics | None = None  # of the tree's etcd, which say what room it has
    # What no option of the command line sets.
    clock: Clock = HOST.clock
    tell_after: float = 2.0  # seconds; a shorter wait for a ZooKeeper's log is not reported
    answer_within: float = 10.0  # seconds that a running follower has to answer: it may be writing a new base
    # Changes (of a ZooKeeper: transactions) in an entry of the copy, unless one of the source needs more. At
    # 20,000 changes a second over a link of 100 ms an entry has to have 3,000.
    entry_changes: int = 8000
    idle: float = 0.2  # seconds until the loop looks around while nothing arrives
    log_bytes: int = 64 << 20  # of the copy's entries since its snapshot, or as many as that has
