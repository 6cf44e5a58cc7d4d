"""What a round's history, the log and the proxies' trees must agree on. Pure.

Outcomes of requests without an answer are taken from the log (`exactly_once`), so that the checker has
nothing to guess. Two kinds of finding are set aside and counted, each only for the sessions and zxids that
it is about: the early end of a session whose proxy had lost its lease (its timeout counts from that proxy's
keep-alives, which the history does not know), and watch events of a state that the session's own proxy loaded
anew (they tell what it missed, at the zxid of that state).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from proof.history import (
    Delete,
    Exists,
    GetChildren,
    GetData,
    History,
    Multi,
    Reply,
    SetData,
    Violation,
    check,
)
from proof.history.calls import failure, take_apart
from proof.history.records import Create, Event, Record, Replied, Request, Write
from proof.simulation.exactly_once import Logged, settled
from proof.simulation.loads import Home, Loads
from proof.simulation.oracle import Oracle
from proxy.state.machine import Machine

LEASE = "the session's proxy had lost its lease"
LOADED = "the session's proxy had loaded its state anew"
"""Why a finding is set aside."""
_JUST_BEFORE = 1_000  # nanoseconds: less than any answer takes, and more than a float of seconds is off by


class Exceptions(NamedTuple):
    """What the proxies are known to have done that histories cannot show."""

    orphans: Collection[int] = ()
    """Sessions that ended because their proxies' leases had."""
    lease: float = 0.0
    """Of a proxy, in seconds."""
    loads: Loads = Loads()
    """Of states that proxies have loaded anew."""

    def explain(self, violation: Violation, records: Sequence[Record]) -> str:
        """Why it is no broken promise; "" if it is one. `records`: the history that was checked."""
        if violation.rule == "lifetime":
            return LEASE if self._is_orphans(records, violation.records[-1]) else ""
        return LOADED if self.loads.explain(violation, records) else ""

    def _is_orphans(self, records: Sequence[Record], place: int) -> bool:
        """Whether a session's end at this place is as late as it must be in any case.

        Its proxy had its lease when it wrote last, and at most the length of a lease before had renewed it.
        """
        ends = {
            session.expired: session
            for session in take_apart(list(records)).sessions.values()
            if session.id in self.orphans
        }
        session = ends.get(place)
        if session is None:
            return False
        written = [
            records[call.invoked].time
            for call in session.calls
            if call.changed and isinstance(call.request, Write)
        ]
        earliest = max(written, default=0) + session.timeout_ms * 1_000_000 - int(self.lease * 1e9)
        return records[place].time >= earliest


class Acknowledged(NamedTuple):
    """A reply to a write that said that it was done, or to a read."""

    time: float
    session: int
    request: Request
    reply: Reply
    timeout: float
    """The session's, in seconds."""


class Seen(NamedTuple):
    """A proxy's answers for its whole tree, by path."""

    data: dict[str, Reply]
    children: dict[str, Reply]


class Evidence(NamedTuple):
    """What is known of a round when it is judged."""

    history: History
    answers: Sequence[Acknowledged]
    homes: Mapping[int, Sequence[Home]]
    """By session the proxies where it was."""
    early: Sequence[tuple[int, str]]
    """Sessions that ended too early, unless that is excused, and what to say of each."""
    seen: Mapping[str, Seen]
    """The whole tree as each proxy has it."""
    broken: bool
    """Whether something is wrong already, so that the trees need not be alike."""


class Verdict(NamedTuple):
    """The findings of a round."""

    violations: list[str]
    aside: Counter[str]
    """Findings that were set aside, by their reason."""
    history: History
    """With the outcomes that the log knows."""
    settled: bool
    """Whether there was a log that knows them."""


def judge(
    history: History,
    oracle: Oracle,
    answers: Sequence[Acknowledged],
    *,
    exceptions: Exceptions,
    settle: bool,
    max_staleness: float,
) -> Verdict:
    """Judge one round. `settle`: the log was seen as a whole."""
    found: list[str] = []
    if settle:
        history = settled(history, _as_seen(history, oracle.writes), found.append, oracle.ends)
        found += _unlogged(oracle, answers)
        found += _stale(oracle, answers, max_staleness)
    aside = Counter[str]()
    for violation in check(history, exceptions.orphans):
        if reason := exceptions.explain(violation, history.records):
            aside[reason] += 1
        else:
            found.append(f"history: {violation.rule}: {violation.message}")
    return Verdict(found, aside, history, settle)


def _as_seen(history: History, writes: Mapping[int, list[Logged]]) -> dict[int, list[Logged]]:
    """The log's entries, none of them later than when a client saw its state or a later one.

    The observer may lag behind the clients, since its own watch of etcd may be broken.
    """
    times: list[int] = []
    zxids: list[int] = []
    for record in history.records:
        zxid = record.zxid if isinstance(record, Event) else None
        if isinstance(record, Replied):
            zxid = record.reply.zxid
        if zxid is not None and zxid > (zxids[-1] if zxids else 0):
            times.append(record.time)
            zxids.append(zxid)

    def moved(entry: Logged) -> Logged:
        place = bisect_left(zxids, entry.zxid)
        if place == len(zxids):
            return entry
        return entry._replace(time=min(entry.time, (times[place] - _JUST_BEFORE) / 1e9))

    return {session: [moved(entry) for entry in entries] for session, entries in writes.items()}


def _unlogged(oracle: Oracle, answers: Sequence[Acknowledged]) -> list[str]:
    """Each acknowledged write is in the log, at its zxid."""
    found = []
    for answer in answers:
        if not isinstance(answer.request, Create | Delete | SetData | Multi) or failure(answer.reply):
            continue
        done = oracle.done.get(answer.reply.zxid or 0)
        if done is None or done.session != answer.session or done.error:
            found.append(
                f"log: session {answer.session:#x} got an acknowledgement at zxid"
                f" {answer.reply.zxid or 0:#x} for {type(answer.request).__name__};"
                f" the log has {done!r} there"
            )
    return found


def _stale(oracle: Oracle, answers: Sequence[Acknowledged], max_staleness: float) -> list[str]:
    """No read is older than what a proxy may serve."""
    found = []
    for answer in answers:
        if not isinstance(answer.request, GetData | GetChildren | Exists) or not answer.reply.zxid:
            continue
        stalest = max_staleness + answer.timeout
        oldest = oracle.zxid_at(answer.time - stalest)
        if answer.reply.zxid < oldest:
            found.append(
                f"staleness: session {answer.session:#x} reads a state of zxid {answer.reply.zxid:#x};"
                f" {oldest:#x} was there {stalest:.0f} s before"
            )
    return found


def tree_of(machine: Machine, roots: Sequence[str]) -> dict[str, bytes | None]:
    """Data by path, of everything below these nodes."""
    return {
        path: node.data
        for path, node in machine.tree.nodes.items()
        if any(path == root or path.startswith(root + "/") for root in roots)
    }


def questions(paths: Sequence[str]) -> list[Request]:
    """What to ask a proxy for its tree."""
    return [request for path in paths for request in (GetData(path), GetChildren(path))]


def differences(expected: Mapping[str, bytes | None], seen: Mapping[str, Seen]) -> list[str]:
    """What proxies' trees differ in: from the log's, and from each other's. `seen`: answers by proxy."""
    found = []
    names = {path: set[str]() for path in expected}
    for path in expected:
        above, _, name = path.rpartition("/")
        if above in names:
            names[above].add(name)
    (_, first), *_ = sorted(seen.items())
    for proxy, answers in sorted(seen.items()):
        for path, data in expected.items():
            got, listed = answers.data.get(path), answers.children.get(path)
            if got is None or listed is None:
                found.append(f"tree: {proxy} did not answer for {path}")
                continue
            stats = got.stat, listed.stat
            others = (first.data[path].stat, first.children[path].stat) if path in first.children else stats
            if got.error or (got.data or b"") != (data or b""):
                found.append(
                    f"tree: {proxy} has {got.data!r} (error {got.error}) at {path}; the log has {data!r}"
                )
            elif set(listed.names or ()) != names[path]:
                found.append(f"tree: {proxy} has other children of {path} than the log")
            elif stats != others:
                found.append(f"tree: {proxy} has another Stat of {path} than the first: {stats} and {others}")
    return found
