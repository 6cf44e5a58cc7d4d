"""The whole run: rounds until the time is over, the proxies' logs, and what is kept of mistakes."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from codec.client import ZooKeeperError, delete
from lab.client.blocking import NO_NODE, Client, Disconnected
from lab.servers import wait_until
from proof.history.lines import to_lines
from proof.simulation.mix import ROOTS
from proof.torture.availability import Episode, summary
from proof.torture.cluster import Cluster
from proof.torture.real import RealClock
from proof.torture.rounds import Judged, Plan, Round
from proof.torture.script import Script
from proof.torture.zketcd import Zketcd

ROUND_SECONDS = 120.0
_CLEANING = 120.0  # seconds
_SHOWN = 10  # violations that are printed of a round


class Options(NamedTuple):
    """The settings of a run."""

    seed: int
    minutes: float
    faults: Sequence[str]
    servers: int
    """That clients connect to."""
    clients: int
    work_dir: Path
    keep_going: bool
    round_seconds: float = ROUND_SECONDS
    holds: Sequence[float] = ()
    least: int = 1
    """Faults of a round, however long they take."""
    pairs: float = 0.0
    """How many of the episodes have two faults at once, from 0 to 1."""


@dataclass
class Totals:
    """The result of a run."""

    seconds: float = 0.0
    rounds: int = 0
    operations: int = 0
    sessions: int = 0
    expiries: int = 0
    events: int = 0
    records: int = 0
    unsettled: int = 0
    snapshots: int = 0
    aside: Counter[str] = field(default_factory=Counter)
    """Findings that were set aside, by their reason."""
    episodes: list[Episode] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def stall(self) -> float:
        """How long the measuring program itself stood still at most, in seconds."""
        return max((episode.stall for episode in self.episodes), default=0.0)

    def add(self, judged: Judged) -> None:
        """Add a round."""
        self.rounds += 1
        self.operations += judged.operations
        self.sessions += judged.sessions
        self.expiries += judged.expiries
        self.events += judged.events
        self.records += len(judged.history)
        self.aside += judged.aside
        self.unsettled += not judged.settled
        self.episodes += judged.episodes
        self.violations += judged.violations

    def as_json(self, options: Options) -> dict[str, Any]:
        """For `--json`."""
        return {
            "seed": options.seed,
            "servers": options.servers,
            "clients": options.clients,
            **{
                name: value
                for name, value in vars(self).items()
                if name not in ("episodes", "violations", "seconds")
            },
            "seconds": round(self.seconds, 1),
            "violations": self.violations,
            "faults": summary(self.episodes),
            "episodes": [episode._asdict() for episode in self.episodes],
        }

    def lines(self) -> list[str]:
        """For people."""
        counts = Counter(episode.fault for episode in self.episodes)
        return [
            f"{self.rounds} histories of {self.records} records in {self.seconds:.0f} s: {self.operations}"
            f" answered requests, {self.events} watch events, {self.sessions} sessions of which"
            f" {self.expiries} expired",
            f"{self.snapshots} snapshots; this program itself stood still for up to {self.stall:.2f} s",
            f"{sum(counts.values())} faults of {len(counts)} kinds; {self.unsettled} histories judged without"
            " the log",
            f"{self.aside.total()} findings set aside",
            *(f"{count} of them: {reason}" for reason, count in self.aside.most_common()),
        ]


async def torture(cluster: Cluster, options: Options, tell: Callable[[Judged, list[str]], None]) -> Totals:
    """Run on a cluster that serves. `tell` gets each round, and lines for people."""
    clock = RealClock(options.seed)
    system = Zketcd(cluster, clock)
    totals = Totals()
    script = Script(clock.random("script"), options.faults, options.pairs, options.holds)
    async with system.following():
        while not totals.rounds or (  # one, also if the observer's start took the whole time
            clock.now < options.minutes * 60 and (options.keep_going or not totals.violations)
        ):
            if totals.rounds:
                await asyncio.to_thread(_clean, system)
            plan = Plan(totals.rounds + 1, options.clients, options.least)
            until = min(options.minutes * 60, clock.now + options.round_seconds)
            judged = await Round(system, clock, plan).run(until, script)
            judged.violations.extend(system.unexpected())
            totals.add(judged)
            totals.seconds = clock.now
            totals.snapshots = system.snapshots()
            lines = [_line(judged, totals)]
            if judged.violations:
                lines += keep(system, options, clock, judged, totals.rounds)
            tell(judged, lines)
    return totals


def _line(judged: Judged, totals: Totals) -> str:
    names = ", ".join(episode.fault for episode in judged.episodes)
    return (
        f"round {totals.rounds}, {totals.seconds:.0f} s: {judged.operations} requests,"
        f" {judged.events} events, {judged.sessions} sessions, {len(judged.violations)} violations; {names}"
    )


def keep(system: Zketcd, options: Options, clock: RealClock, judged: Judged, number: int) -> list[str]:
    """Write down what shows a mistake; returns what to tell about it, whether it could be written or not."""
    folder = options.work_dir / f"seed-{options.seed}-round-{number}"
    found = [f"VIOLATION: {violation}" for violation in judged.violations[:_SHOWN]]
    count = f"seed {options.seed}: {len(judged.violations)} violations."
    try:
        history = _write(folder, system, clock, judged)
    except OSError as error:
        return [*found, f"{count} History, trace and logs could not be kept in {folder}: {error.strerror}"]
    return [
        *found,
        f"{count} History, trace and logs are in {folder}",
        f"check the history again: python -m proof.check {history}",
    ]


def _write(folder: Path, system: Zketcd, clock: RealClock, judged: Judged) -> Path:
    """Write everything into the folder; returns the file of the history."""
    folder.mkdir(parents=True, exist_ok=True)
    history = folder / "history.jsonl"
    with history.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in to_lines(judged.history))
    (folder / "trace").write_text("\n".join(clock.lines) + "\n", errors="surrogateescape")
    faults = [
        f"{episode.began:9.2f} to {episode.ended:9.2f}, all worked at {episode.worked:9.2f}: {episode.fault}"
        f" {episode.what}"
        for episode in judged.episodes
    ]
    (folder / "faults").write_text("\n".join(faults) + "\n")
    (folder / "violations").write_text("\n".join(judged.violations) + "\n", errors="surrogateescape")
    for host, path in system.logs().items():
        shutil.copyfile(path, folder / f"{host}.log")
    return history


def _clean(system: Zketcd) -> None:
    """Remove the round's nodes and make space, so that each round begins with an empty tree.

    Raises TimeoutError.
    """
    port = next(iter(system.direct.values()))
    wait_until(lambda: _is_removed(port), "an empty tree", _CLEANING)
    system.clean()


def _is_removed(port: int) -> bool:
    """Remove the round's nodes; False if the connection was lost on the way."""
    try:
        with Client(port) as client:
            for root in ROOTS:
                _remove(client, root)
            client.close()
    except (Disconnected, ZooKeeperError, OSError):
        return False
    return True


def _remove(client: Client, path: str) -> None:
    try:
        names, _ = client.children(path)
    except ZooKeeperError as refused:
        if refused.code == NO_NODE:
            return
        raise
    for name in names:
        _remove(client, f"{path}/{name}")
    client.refusal(delete(path))
