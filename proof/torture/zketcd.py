"""The system that a round tortures: the cluster, its faults, and the observer of the log."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from proof.simulation.loads import Loads
from proof.simulation.mix import ROOTS
from proof.torture.acts import Fault
from proof.torture.cluster import PROXY_LEASE, Cluster
from proof.torture.faults import KINDS, make_space, mend
from proof.torture.judge import LEASE, Evidence, Exceptions, Verdict, differences, judge, tree_of
from proof.torture.observer import Observer
from proof.torture.real import RealClock

_STALENESS = 10.0 + 5.0  # seconds: --max-staleness, and how often that is looked at
_LOADED = re.compile(r"the state was loaded anew: zxid (0x[0-9a-f]+)")
_UNEXPECTED = re.compile(r"^Traceback .*|.* entries its digest was .*", re.MULTILINE)
_SNAPSHOT = " INFO proxy.log.upkeep.snapshots: snapshot: "


class Zketcd:
    """Proxies and members of etcd that serve."""

    def __init__(self, cluster: Cluster, clock: RealClock) -> None:
        """Needs a running loop."""
        self._cluster = cluster
        self._random = clock.random("faults")
        self._reported: Counter[str] = Counter()  # unexpected lines, by proxy
        self._observer = observer = Observer(clock, [member.endpoint for member in cluster.members])
        observer.successors = lambda incarnation: [
            name for proxy in cluster.proxies for name in proxy.successors(incarnation)
        ]
        self.ports: Mapping[str, int] = cluster.ports
        self.direct: Mapping[str, int] = {proxy.host: proxy.port for proxy in cluster.proxies}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """The observer follows the log."""
        async with self._observer.following():
            yield

    def begin_round(self, on_expiry: Callable[[int], None]) -> None:
        """Another history begins."""
        self._observer.on_expiry = on_expiry
        self._observer.begin()

    def begin(self, kind: str) -> Fault:
        """Make one fault."""
        return KINDS[kind].begin(self._cluster, self._random)

    def mend(self) -> None:
        """Start what does not run."""
        mend(self._cluster)

    def ended(self) -> Sequence[str]:
        """Proxies whose processes have ended."""
        statuses = {proxy.host: proxy.ended_by_itself() for proxy in self._cluster.proxies}
        return [f"{host} with status {status}" for host, status in statuses.items() if status is not None]

    def lacks(self) -> str:
        """A proxy that does not serve."""
        proxies = self._cluster.proxies
        return next((proxy.host for proxy in proxies if not (proxy.alive and proxy.serves())), "")

    async def sessions(self) -> Sequence[str]:
        """The sessions in the log."""
        return [hex(session) for session in self._observer.oracle.machine.sessions]

    async def tree(self) -> Mapping[str, bytes | None]:
        """The tree in the log."""
        return tree_of(self._observer.oracle.machine, ROOTS)

    def knows(self, zxid: int) -> bool:
        """Whether the observer has seen the log up to this."""
        return self._observer.oracle.machine.zxid >= zxid

    async def judge(self, evidence: Evidence) -> Verdict:
        """Judge the history, the log and the proxies' trees."""
        observer, proxies = self._observer, self._cluster.proxies
        excused = await asyncio.to_thread(observer.excused)
        early = [what for session, what in evidence.early if session not in excused]
        log = [f"log: {violation}" for violation in observer.violations]
        right = not evidence.broken and not early
        trees = differences(await self.tree(), evidence.seen) if right else []
        verdict = await asyncio.to_thread(
            judge,
            evidence.history,
            observer.oracle,
            evidence.answers,
            exceptions=Exceptions(
                excused,
                PROXY_LEASE,
                Loads({proxy.host: loads_of(proxy.whole_log()) for proxy in proxies}, evidence.homes),
            ),
            settle=not observer.lost,
            max_staleness=_STALENESS,
        )
        aside = verdict.aside + Counter({LEASE: len(evidence.early) - len(early)})
        return verdict._replace(violations=[*early, *log, *verdict.violations, *trees], aside=aside)

    def clean(self) -> None:
        """Make space in etcd."""
        make_space(self._cluster)

    def unexpected(self) -> Sequence[str]:
        """Lines of the proxies' logs."""
        found = []
        for proxy in self._cluster.proxies:
            lines = [line.group() for line in _UNEXPECTED.finditer(proxy.whole_log())]
            found += [f"log of {proxy.host}: {line}" for line in lines[self._reported[proxy.host] :]]
            self._reported[proxy.host] = len(lines)
        return found

    def snapshots(self) -> int:
        """The snapshots that the proxies' logs report."""
        return sum(proxy.whole_log().count(_SNAPSHOT) for proxy in self._cluster.proxies)

    def logs(self) -> Mapping[str, Path]:
        """Of members and proxies."""
        members = {member.host: member.log_path for member in self._cluster.members}
        return members | {proxy.host: proxy.log_path for proxy in self._cluster.proxies}


def loads_of(log: str) -> set[int]:
    """The zxids of states that a proxy has loaded anew, as its log says."""
    return {int(found[1], 16) for found in _LOADED.finditer(log)}
