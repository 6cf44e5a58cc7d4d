"""What all replicas did and saw in one run, and whether the invariants hold. Pure: times are arguments (s).

The replicas write here; ZooKeeper is asked nothing. `judge` compares it all with the tree at the end. The
invariants, by the names that a Violation has:

* `numbers`: a number of the log is given to one proposal only, and none is left out.
* `lock`: from the zxid at which a replica got the lock to that at which it gave it back, no other had it.
* `lost`: a committed entry is applied by every replica, or is part of a snapshot that the replica took.
* `doubled`: no replica applies an entry twice, and no proposal is in the log twice.
* `order`: each replica applies entries in the order of their numbers, and a proposal that was made after
  another was acknowledged has a higher number.
* `agreement`: an entry has the same text for every replica, and the tables after it are the same.
* `rollback`: what was rolled back is never applied.
* `snapshot`: the metadata, and each snapshot that a replica took, are those of the committed entries.
* `pointers`: at the end max_log_ptr, and each replica's log_ptr and digest, name the last entry.
* `cleaning`: no entry that a replica may need is deleted; the end's log is whole and without leftovers.
* `progress`: the replicas make progress; none waits for ever (see `run`).
* `requests`: no request fails with an error that the protocol does not know (see `replica`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from examples.database_replicated import ddl
from examples.invariants import Violation


class LastEntry(NamedTuple):
    """An entry of the log as the end's tree has it."""

    text: bytes
    children: frozenset[str]
    finished: frozenset[str]
    active: frozenset[str]


class LastReplica(NamedTuple):
    """A replica as the end's tree has it, and its own tables."""

    log_ptr: int
    digest: str
    tables: ddl.Tables


class End(NamedTuple):
    """The tables that exist when all replicas have applied everything."""

    metadata: ddl.Tables
    log: Mapping[int, LastEntry]
    replicas: Mapping[str, LastReplica]
    max_log_ptr: int
    logs_to_keep: int
    locked: bool
    counters: int
    """Nodes below `counter`."""


class _Proposal(NamedTuple):
    replica: str
    text: bytes
    at: float
    zxid: int


class Ledger:
    """Notes of one run."""

    def __init__(self, replicas: Sequence[str]) -> None:
        self.replicas = list(replicas)
        self.committed: dict[int, float] = {}  # number -> when the initiator learned it
        self.latencies: Counter[int] = Counter()  # microseconds from proposal to commit
        self.spread: Counter[int] = Counter()  # microseconds from commit until all replicas have applied it
        self.events: Counter[str] = Counter()  # what else happened since the last restart or stop
        self._proposals: dict[int, _Proposal] = {}
        self._ids: dict[str, int] = {}  # of a query -> its number
        self._lost_locks = 0  # tries whose outcome is unknown
        self._held: list[tuple[int, int, str]] = []
        self._rolled_back: set[int] = set()
        self._seen_committed: set[int] = set()  # by the replicas that deleted the entry
        self._applied: dict[int, dict[str, str]] = {}  # number -> replica -> digest after it
        self._texts: dict[int, bytes] = {}
        self._history: dict[str, list[tuple[int, bool]]] = {
            name: [] for name in replicas
        }  # (number, snapshot)
        self._snapshots: list[tuple[str, int, str]] = []  # replica, number, digest
        self._counting = False

    def restart(self) -> None:
        """The timed part begins."""
        self._counting = True
        for counts in (self.latencies, self.spread, self.events):
            counts.clear()

    def stop(self) -> dict[str, int]:
        """The timed part is over; its events."""
        self._counting = False
        events = dict(self.events)
        self.events.clear()
        return events

    @property
    def last(self) -> int:
        """The highest number that was applied or is known to be committed."""
        return max([*self.committed, *self._applied], default=0)

    # What a proposer writes.

    def locked(self, replica: str, number: int, text: bytes, proposed: float, zxid: int) -> None:
        """A replica got the lock and a number for its proposal, at this zxid."""
        other = self._proposals.get(number)
        if other is not None:
            raise Violation("numbers", f"entry {number} is given to {other.replica} and to {replica}")
        self._proposals[number] = _Proposal(replica, text, proposed, zxid)
        if text:
            identity = ddl.query_of(text).id
            if identity in self._ids:
                raise Violation("doubled", f"{identity} is entry {self._ids[identity]} and entry {number}")
            self._ids[identity] = number

    def released(self, replica: str, since: int, until: int) -> None:
        """A replica has given the lock back that it had from one zxid to another."""
        for begun, ended, other in reversed(self._held):
            if ended < since:
                break  # those before it ended earlier still
            if begun < until:
                mine = f"{replica} had it from {since:#x} to {until:#x}"
                raise Violation("lock", f"{mine}, {other} from {begun:#x} to {ended:#x}")
        self._held.append((since, until, replica))

    def lock_unknown(self) -> None:
        """The connection was lost while a replica tried to take the lock: a number may be spent."""
        self._lost_locks += 1

    def acknowledged(self, number: int, now: float) -> None:
        """The initiator learned that its entry is committed."""
        if number in self._rolled_back:
            raise Violation("rollback", f"entry {number} is committed and rolled back")
        self.committed[number] = now
        self._count(self.latencies, now - self._proposals[number].at)

    def rolled_back(self, number: int) -> None:
        """The initiator learned that its entry will never be committed."""
        self._rolled_back.add(number)
        self.note("entries rolled back")

    # What a worker writes.

    def applied(self, replica: str, number: int, text: bytes, digest: str, now: float) -> None:
        """A replica has applied an entry in full."""
        history = self._history[replica]
        if history and number <= history[-1][0]:
            again = any(number == before for before, snapshot in history if not snapshot)
            name = "doubled" if again or number == history[-1][0] else "order"
            raise Violation(name, f"{replica} applied entry {number} after entry {history[-1][0]}")
        if self._texts.setdefault(number, text) != text:
            raise Violation("agreement", f"entry {number} is {text!r} and {self._texts[number]!r}")
        proposal = self._proposals.get(number)
        if proposal is None or proposal.text != text:
            proposed = proposal and proposal.text
            raise Violation("agreement", f"entry {number} is {text!r}, what was proposed is {proposed!r}")
        if number in self._rolled_back:
            raise Violation("rollback", f"{replica} applied entry {number}, which was rolled back")
        others = self._applied.setdefault(number, {})
        for other, theirs in others.items():
            if theirs != digest:
                raise Violation("agreement", f"{replica} and {other} have other tables after entry {number}")
        others[replica] = digest
        history.append((number, False))
        if len(others) == len(self.replicas) and number in self.committed:
            self._count(self.spread, now - self.committed[number])

    def recovered(self, replica: str, number: int, digest: str) -> None:
        """A replica took the snapshot as of an entry."""
        history = self._history[replica]
        if history and number < history[-1][0]:
            raise Violation("order", f"{replica} took a snapshot of {number} after entry {history[-1][0]}")
        history.append((number, True))
        self._snapshots.append((replica, number, digest))
        self.note("recoveries")

    # What a cleaner writes.

    def cleaning(self, number: int, max_log_ptr: int, logs_to_keep: int, committed: bool) -> None:
        """A replica begins to delete an entry, and saw whether it is committed."""
        if number >= max_log_ptr - logs_to_keep:
            raise Violation(
                "cleaning", f"entry {number} of {max_log_ptr} goes, {logs_to_keep} are to be kept"
            )
        if committed:
            self._seen_committed.add(number)

    def note(self, what: str) -> None:
        """Count something for the table."""
        self.events[what] += 1

    def _count(self, latencies: Counter[int], passed: float) -> None:
        if self._counting:
            latencies[int(passed * 1e6)] += 1

    # The end.

    def judge(self, end: End) -> None:
        """Compare all notes with each other and with the tree. Raises Violation."""
        in_log = {number for number, entry in end.log.items() if "committed" in entry.children}
        committed = sorted({*self.committed, *self._applied, *self._seen_committed, *in_log})
        self._judge_numbers(committed)
        self._judge_lock(end)
        self._judge_order(committed)
        states = self._states(committed)
        self._judge_replicas(committed)
        self._judge_snapshots(states, end)
        self._judge_pointers(committed, states, end)
        self._judge_log(committed, end)

    def _judge_numbers(self, committed: Sequence[int]) -> None:
        given = len(self._proposals)
        # Number 0 was spent when the database was made.
        highest = max(self._proposals, default=0)
        if highest > given + self._lost_locks:
            raise Violation(
                "numbers",
                f"number {highest} was given after {given} numbers and {self._lost_locks} lost replies",
            )
        for number in committed:
            if number not in self._proposals:
                raise Violation("numbers", f"entry {number} is committed, and no replica got that number")
            if number in self._rolled_back:
                raise Violation("rollback", f"entry {number} is committed and rolled back")
        given_at = sorted((number, proposal.zxid) for number, proposal in self._proposals.items())
        for (number, before), (_, zxid) in pairwise(given_at):
            if zxid <= before:
                raise Violation("numbers", f"number {number} was given at {before:#x}, the next at {zxid:#x}")

    def _judge_lock(self, end: End) -> None:
        if end.locked or end.counters:
            raise Violation("lock", f"the lock ({end.locked}) or {end.counters} counters are left")

    def _judge_order(self, committed: Sequence[int]) -> None:
        latest, by = float("-inf"), 0
        for number in committed:
            proposal = self._proposals[number]
            acknowledged = self.committed.get(number, float("inf"))
            if acknowledged < latest:
                raise Violation(
                    "order", f"entry {by} was proposed after entry {number} had been acknowledged"
                )
            if proposal.at > latest:
                latest, by = proposal.at, number

    def _states(self, committed: Sequence[int]) -> dict[int, str]:
        """The digest after each committed entry; that of max_log_ptr's first value, 1, included."""
        tables: dict[str, str] = {}
        digests = {0: ddl.digest(tables), 1: ddl.digest(tables)}
        for number in committed:
            text = self._proposals[number].text
            if text:
                made = ddl.changes(tables, ddl.query_of(text))
                if made is None:
                    raise Violation("order", f"entry {number}, {text!r}, fails after those before it")
                tables = ddl.changed(tables, made)
            digests[number] = ddl.digest(tables)
            for replica, found in self._applied.get(number, {}).items():
                if found != digests[number]:
                    raise Violation("agreement", f"{replica} has wrong tables after entry {number}")
        return digests

    def _judge_replicas(self, committed: Sequence[int]) -> None:
        for replica, history in self._history.items():
            applied = {number for number, snapshot in history if not snapshot}
            snapshots = [
                (before, number)
                for (before, _), (number, snapshot) in pairwise([(0, False), *history])
                if snapshot
            ]
            for number in committed:
                inside = any(before < number <= until for before, until in snapshots)
                if number not in applied and not inside and self._proposals[number].text:
                    raise Violation("lost", f"{replica} has never applied entry {number}, which is committed")

    def _judge_snapshots(self, states: Mapping[int, str], end: End) -> None:
        for replica, number, found in self._snapshots:
            if states.get(number) != found:
                raise Violation("snapshot", f"{replica} took a wrong snapshot as of entry {number}")
        if ddl.digest(end.metadata) != states[max(states)]:
            raise Violation("snapshot", "the metadata at the end is not that of the committed entries")

    def _judge_pointers(self, committed: Sequence[int], states: Mapping[int, str], end: End) -> None:
        queries = [number for number in committed if self._proposals[number].text]
        last = queries[-1] if queries else 1
        if end.max_log_ptr != last:
            raise Violation("pointers", f"max_log_ptr is {end.max_log_ptr}, the last entry is {last}")
        if sorted(end.replicas) != sorted(self.replicas):
            raise Violation("pointers", f"the replicas are {sorted(end.replicas)}")
        for name, replica in end.replicas.items():
            if replica.log_ptr != last:
                raise Violation(
                    "pointers", f"log_ptr of {name} is {replica.log_ptr}, the last entry is {last}"
                )
            if not replica.digest == ddl.digest(replica.tables) == states[last]:
                raise Violation(
                    "pointers", f"{name} has another digest or other tables than entry {last} left"
                )

    def _judge_log(self, committed: Sequence[int], end: End) -> None:
        for number in committed:
            if number >= end.max_log_ptr - end.logs_to_keep and number not in end.log:
                raise Violation("cleaning", f"entry {number} of {end.max_log_ptr} is gone")
        for number, entry in end.log.items():
            if number < end.max_log_ptr - end.logs_to_keep:
                continue  # being deleted when the run ended
            if "try" in entry.children or entry.active:
                raise Violation("cleaning", f"entry {number} is still being tried: {sorted(entry.active)}")
            if number in self._proposals and entry.text != self._proposals[number].text:
                raise Violation("agreement", f"entry {number} is {entry.text!r} at the end")
            done = {name for name, _ in self._applied.get(number, {}).items()}
            if "committed" in entry.children and not done <= entry.finished:
                raise Violation(
                    "cleaning", f"entry {number} lacks {sorted(done - entry.finished)} as finished"
                )
