"""ZooKeeper itself as a `System`: no log says what became of requests without an answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from lab.servers.zookeeper import zookeeper_jar_version
from proof.history import Violation, check
from proof.history.records import Expired, Opened, Record
from proof.simulation.mix import ROOTS
from proof.torture.acts import launch
from proof.torture.ensemble import SYNC_MS, Ensemble, snapshots_of, tree_of
from proof.torture.ensemble_faults import KINDS
from proof.torture.judge import Verdict, differences
from proof.torture.real import RealClock
from proof.torture.system import Evidence, Fault

_NO_PROMISE = {
    "undecided": "the search for an order was given up",
    "sync": "a sync is no quorum operation",
    "lifetime": "the leader does not count for how long a follower serves without it",
}
"""Why a finding of a rule may be set aside."""
_PATIENCE = 60.0  # seconds for the whole tree
_PAUSE = 0.2


class ZooKeeper:
    """Three servers that serve."""

    def __init__(self, ensemble: Ensemble, clock: RealClock) -> None:
        self._ensemble = ensemble
        self._random = clock.random("faults")
        self.name = f"ZooKeeper {zookeeper_jar_version()}"
        self.ports: Mapping[str, int] = ensemble.ports
        self.direct: Mapping[str, int] = {server.host: server.port for server in ensemble.servers}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """There is nothing to follow."""
        yield

    def begin_round(self, on_expiry: Callable[[int], None]) -> None:
        """Nothing tells when sessions end."""

    def begin(self, kind: str) -> Fault:
        """Make one fault, by the name of zketcd's."""
        return KINDS[kind].begin(self._ensemble, self._random)

    def mend(self) -> None:
        """Start what does not run."""
        launch(*self._ensemble.servers)

    def ended(self) -> Sequence[str]:
        """None: a ZooKeeper may exit, as a member of etcd may. It is started again after the fault."""
        return ()

    def lacks(self) -> str:
        """A server that is no part of a quorum."""
        servers = self._ensemble.servers
        return next((server.host for server in servers if not server.figure("srvr", "Mode")), "")

    async def sessions(self) -> Sequence[str]:
        """How many there are."""
        count = await asyncio.to_thread(self._ensemble.sessions)
        return () if count == "0" else (count or "unknown",)

    async def tree(self) -> Mapping[str, bytes | None]:
        """As the first server that answers has it."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                for port in self.direct.values():
                    found = await asyncio.to_thread(tree_of, port, ROOTS)
                    if found is not None:
                        return found
                await asyncio.sleep(_PAUSE)

    def knows(self, zxid: int) -> bool:
        """There is no log that may lag behind."""
        del zxid
        return True

    async def judge(self, evidence: Evidence) -> Verdict:
        """The history, and that all servers have the same tree."""
        found = await asyncio.to_thread(check, evidence.history)
        aside = [each for each in found if is_no_promise(each, evidence.history.records)]
        violations = [f"history: {each.rule}: {each.message}" for each in found if each not in aside]
        if not evidence.broken:
            violations += differences(await self.tree(), evidence.seen)
        reasons = Counter(_NO_PROMISE[each.rule] for each in aside)
        return Verdict(violations, reasons, evidence.history, False)

    def clean(self) -> None:
        """Nothing has to be made room for."""

    def unexpected(self) -> Sequence[str]:
        """ZooKeeper logs exceptions under faults as a matter of course."""
        return ()

    def snapshots(self) -> int:
        """As the data directories have them."""
        return sum(snapshots_of(server.data_dir) for server in self._ensemble.servers)

    def logs(self) -> Mapping[str, Path]:
        """By server."""
        return {server.host: server.log_path for server in self._ensemble.servers}


def is_no_promise(violation: Violation, records: Sequence[Record]) -> bool:
    """Whether a rule of the checker asks for more than ZooKeeper promises.

    Without a log the search may have to be given up. A sync is no quorum operation (ZOOKEEPER-1675): the
    leader answers its own clients with what it has applied itself, when a follower may have answered with
    more. A follower that the leader does not hear serves clients until syncLimit: the leader counts nothing
    of that.
    """
    if violation.rule != "lifetime":
        return violation.rule in _NO_PROMISE
    last, end = records[violation.records[0]], records[violation.records[-1]]
    if not isinstance(end, Expired):
        return False
    opened = (each for each in records if isinstance(each, Opened) and each.session == end.session)
    return (end.time - last.time) / 1e6 >= next(opened).timeout_ms - SYNC_MS
