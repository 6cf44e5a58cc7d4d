"""What a server's state comes from: the replicated log, or a moment of an archive."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from proxy.etcd.interface import Calls
from proxy.etcd.model import Status
from proxy.frontend.request_logs import Stages
from proxy.log.append.pending import Pending
from proxy.log.recent import Recent
from proxy.log.slices import StateWorker
from proxy.log.status import Contact, LogStatus
from proxy.log.upkeep.snapshots import SnapshotFacts, SnapshotStats


class Replicated(Protocol):
    """A server's end of the replicated log (`log.log.Log`)."""

    def status(self) -> LogStatus:
        """Its state."""

    def contact(self) -> Contact:
        """Whether etcd answers, and whether clients may see the state."""


@dataclass(frozen=True)
class StateSource:
    """What changes the state, and what is known about that; by default nothing ever changes it."""

    replicated: Replicated
    worker: StateWorker  # changes the state
    submit: Callable[[Iterable[Pending]], None]  # takes clients' writes
    stages: Callable[[], Stages] = lambda: Stages(0, 0)  # of the entry that is being applied
    position: Callable[[], int] = lambda: 0  # of that entry
    before_flush: Callable[[], None] | None = None  # called before replies to writes leave
    look: Callable[[], object] = lambda: None  # as that of `StateGate`
    recent: Recent | None = None  # what requests have changed lately
    snapshots: Callable[[], SnapshotFacts] = lambda: SnapshotFacts(SnapshotStats())
    etcd_status: Callable[[], Status | None] = lambda: None  # as etcd reported it some seconds ago
    etcd_calls: Calls = field(default_factory=Calls)  # how etcd answers
