"""The result of one simulated world."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class Outcome(NamedTuple):
    """The result of one simulated world."""

    kind: str  # of kinds.SIMULATED
    seed: int
    seconds: float  # simulated
    operations: int  # answered requests of clients
    requests: int  # applied from the log
    faults: dict[str, int]
    recoveries: list[float]  # seconds
    snapshots: int
    elections: int
    sessions: int
    expiries: int
    fingerprint: str
    violations: list[str]
    trace: list[str]
    quiet: float = 0.0  # seconds of quiet stretches
    expired_nodes: int = 0  # containers and TTL nodes that went when they were due
    deceived: int = 0  # servers that had a wrong state by a bug of etcd's
    deceived_for: float = 0.0  # seconds, at most, after which one of them still answered
    branches: Mapping[str, int] = MappingProxyType({})  # of `sometimes`, and how often each was taken
    knobs: str = ""  # what the seed has drawn
    cpu: float = 0.0  # seconds of CPU time that it took
    alone: Mapping[str, Sequence[float]] = MappingProxyType({})  # by fault: recoveries from it alone, seconds
    set_aside: Mapping[str, int] = MappingProxyType({})  # findings that break no promise, by the reason
