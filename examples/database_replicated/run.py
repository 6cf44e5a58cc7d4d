"""One run of DatabaseReplicated: calm and timed, then with lost replicas, then everything is compared."""

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from codec.client import children, exists, get, maybe, sync
from examples.database_replicated.layout import Layout, number_of
from examples.database_replicated.ledger import End, LastEntry, LastReplica, Ledger
from examples.database_replicated.replica import Fate, Replica, Settings
from examples.invariants import Violation
from examples.program import Findings, Surroundings
from examples.runner import background
from lab.arguments import count, seconds
from lab.client.session import OPERATION_TIMEOUT_S, Session, connected

#: How long the replicas may need for anything that the run waits for, above a session's timeout.
TIMEOUT_S = 120.0
#: ClickHouse waits so long for an entry's initiator before it cancels the entry.
CANCEL_AFTER_S = 3600.0
_LOOK_S = 0.02
_WARM_UP = 0.2
_LONGEST_WARM_UP_S = 3.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this workload."""
    parser.add_argument("--replicas", type=count, default=16, help="simulated servers (default: 16)")
    parser.add_argument(
        "--losses", type=int, default=len(Fate), help="replicas to lose after the timed part (default: 4)"
    )
    parser.add_argument(
        "--logs-to-keep", type=count, default=50, help="entries that stay in the log (default: 50)"
    )
    parser.add_argument(
        "--lock-pause",
        type=seconds,
        default=0.05,
        help="seconds between two tries to take the lock (default: 0.05, as ClickHouse)",
    )
    parser.add_argument(
        "--session-timeout", type=seconds, default=10.0, help="of all sessions, in seconds (default: 10)"
    )


async def run(
    surroundings: Surroundings,
    options: argparse.Namespace,
    *,
    kind: Callable[[int, Settings], Replica] = Replica,
    cancel_after_s: float = CANCEL_AFTER_S,
    timeout_s: float = TIMEOUT_S,
    meanwhile: Callable[[Ledger], Awaitable[None]] | None = None,
) -> Findings:
    """Run once. Raises Violation, and ConnectionLost if the servers stay away.

    `meanwhile` is called after the timed part, while the replicas still run: tests inject faults there.
    """
    names = [f"r{number:02d}" for number in range(options.replicas)]
    ledger = Ledger(names)
    settings = Settings(
        surroundings.addresses,
        Layout(surroundings.root),
        ledger,
        surroundings.meter,
        int(options.session_timeout * 1000),
        min(OPERATION_TIMEOUT_S, options.session_timeout),
        options.lock_pause,
        cancel_after_s,
        options.seed,
    )
    async with connected(surroundings.addresses) as session:
        await session.multi(*settings.layout.make_database(options.logs_to_keep))
    replicas = [kind(number, settings) for number in range(options.replicas)]
    async with background(replica.live() for replica in replicas):
        timeout = timeout_s + options.session_timeout
        return await _Director(replicas, settings, options, timeout).direct(meanwhile)


class _Director:
    """Tells the replicas when to propose and when to be lost, and waits for what must happen then."""

    def __init__(
        self, replicas: Sequence[Replica], settings: Settings, options: argparse.Namespace, timeout_s: float
    ) -> None:
        self._replicas = replicas
        self._settings = settings
        self._ledger = settings.ledger
        self._options = options
        self._timeout_s = timeout_s

    async def direct(self, meanwhile: Callable[[Ledger], Awaitable[None]] | None) -> Findings:
        """The whole run."""
        ledger, meter, replicas = self._ledger, self._settings.meter, self._replicas
        await self._until(
            lambda: all(replica.level.is_set() for replica in replicas), "all replicas to begin"
        )
        self._let_propose(True)
        await asyncio.sleep(min(_LONGEST_WARM_UP_S, self._options.seconds * _WARM_UP))
        meter.restart()
        ledger.restart()
        begun = time.monotonic()
        await asyncio.sleep(self._options.seconds)
        passed = time.monotonic() - begun
        meter.stop()
        events = ledger.stop()
        if meanwhile is not None:
            await meanwhile(ledger)
        await self._lose()
        self._let_propose(False)
        ledger.judge(await self._quiet_end())
        return Findings(
            ledger.latencies.total(),
            passed,
            {"proposed to committed": ledger.latencies, "committed to applied by all": ledger.spread},
            {
                "replicas": len(replicas),
                **events,
                "replicas lost": sum(replica.losses for replica in replicas),
                **{f"{what}, after the timed part": number for what, number in ledger.events.items()},
                "entries in all": ledger.last,
            },
        )

    def _let_propose(self, proposing: bool) -> None:
        for replica in self._replicas:
            replica.proposing = proposing

    async def _lose(self) -> None:
        """Lose one replica after another, each in its way, and wait until it follows the log again."""
        chance = random.Random(f"{self._options.seed} losses")
        fates = list(Fate)
        for number in range(self._options.losses):
            replica, fate = chance.choice(self._replicas), fates[number % len(fates)]
            if fate == Fate.FOR_LONG and len(self._replicas) == 1:
                continue  # no other task appends entries
            before, last = replica.losses, self._ledger.last
            replica.fate = fate  # it meets it at its next occasion
            what = f"{replica.name}, lost {fate.value}, to be back"
            await self._until(partial(_is_back, replica, before, last), what)

    async def _until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for something that must happen. Raises Violation if it does not."""
        deadline = time.monotonic() + self._timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise Violation("progress", f"waited {self._timeout_s:g} s in vain for {what}")
            await asyncio.sleep(_LOOK_S)

    async def _quiet_end(self) -> End:
        """The tree when no replica proposes any more, all have all entries, and lost sessions are over."""
        replicas = self._replicas
        await self._until(lambda: all(replica.idle for replica in replicas), "the last proposals")
        deadline = time.monotonic() + self._timeout_s
        while True:
            # As of before the tree is read: who catches up while it is read is not in it.
            reached = {each.name: each.pointer if each.level.is_set() else -1 for each in replicas}
            async with connected(self._settings.addresses) as session:
                end = await read_end(session, self._settings.layout, replicas)
            last = max(end.log, default=0)
            behind = [name for name, pointer in reached.items() if pointer < last]
            busy = [n for n, entry in end.log.items() if "try" in entry.children or entry.active]
            if not (behind or busy or end.locked or end.counters):
                return end
            if time.monotonic() > deadline:
                raise Violation("progress", f"not quiet: {behind} are behind, {busy} are being tried")
            await asyncio.sleep(_LOOK_S * 10)


def _is_back(replica: Replica, losses: int, pointer: int) -> bool:
    return replica.losses > losses and replica.pointer > pointer


async def read_end(session: Session, places: Layout, replicas: Sequence[Replica]) -> End:
    """Everything that the ledger compares, from the tree and from the replicas' own tables."""
    await session.call(sync(places.root))
    names = (await session.call(children(places.metadata))).names
    definitions = [session.send(get(places.table(name))) for name in names]
    metadata = {name: (await asked).data.decode() for name, asked in zip(names, definitions, strict=True)}
    log = {}
    for name in (await session.call(children(places.log))).names:
        entry = await _read_entry(session, f"{places.log}/{name}")
        if entry is not None:
            log[number_of(name)] = entry
    own = {replica.name: replica.tables for replica in replicas}
    found = {}
    for name in (await session.call(children(places.replicas))).names:
        node = places.replica(name)
        log_ptr, digest = session.send(get(f"{node}/log_ptr")), session.send(get(f"{node}/digest"))
        found[name] = LastReplica(int((await log_ptr).data), (await digest).data.decode(), own.get(name, {}))
    return End(
        metadata,
        log,
        found,
        int((await session.call(get(places.max_log_ptr))).data),
        int((await session.call(get(places.logs_to_keep))).data),
        await session.call(exists(places.lock_node)) is not None,
        len((await session.call(children(places.counter))).names),
    )


async def _read_entry(session: Session, path: str) -> LastEntry | None:
    """None if a cleaner deletes it meanwhile."""
    asked = session.send(maybe(get(path)))
    listed = [session.send(maybe(children(node))) for node in (path, f"{path}/finished", f"{path}/active")]
    data = await asked
    below, finished, active = [
        listing and frozenset(listing.names) for listing in [await each for each in listed]
    ]
    if data is None or below is None:
        return None
    return LastEntry(data.data, below, finished or frozenset(), active or frozenset())
