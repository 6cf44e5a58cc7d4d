"""What must be: the effective order of the log and the state after each entry, computed beside all proxies.

The oracle sees each commit of the simulated etcd at the moment when it is made. It finds the effective order
by a few lines of its own, not by `proxy.log.follow`, and runs one machine. Whatever any machine in any
proxy, loading proxy or snapshot writer does is compared with it, entry by entry: which entry comes next, the
zxid and the digest after it. `proof.torture` gives it the commits of a real etcd.
"""

import bisect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from codec.constants import ErrorCode, OpCode
from proof.simulation import sometimes
from proof.simulation.clients import Clock
from proof.simulation.exactly_once import Logged
from proof.simulation.proxies import PREFIX
from proof.simulation.seams import NEXT_LEVELS
from proxy.etcd.model import DELETE, Event
from proxy.state import capture
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.outcome import CarriedOver, Outcome
from schema.entry import Kind, Request, decode_close, decode_entry, decode_node_due
from schema.errors import ForeignKey
from schema.keys import KeyKind, Keyspace
from schema.record import decode_record

_REQUESTS = "requests"


class Step(NamedTuple):
    """The log after one entry."""

    incarnation: str
    number: int
    zxid: int
    digest: int


class Done(NamedTuple):
    """The outcome of the request with a zxid."""

    session: int
    opcode: int
    error: int


@dataclass
class Listeners:
    """Called with what the oracle finds."""

    #: A session ends without its client's wish: id, holder expected by the CLOSE.
    expired: Callable[[int, str], None] = lambda _session, _holder: None
    #: A session is attached: id, incarnation, timeout in ms, whether carried over.
    attached: Callable[[int, str, int, bool], None] = lambda *_change: None
    #: A container or TTL node is deleted as due: path, and the node as it was.
    due: Callable[[str, Node], None] = lambda _path, _node: None
    #: An entry begins: incarnation and clock of its sender.
    entered: Callable[[str, int], None] = lambda *_entry: None
    #: An entry has come before its predecessor: incarnation.
    gap: Callable[[str], None] = lambda _incarnation: None
    #: A request was applied: incarnation, clock and rules of its sender, request, outcome, the machine.
    applied: Callable[[str, int, int, Request, Outcome, Machine], None] = lambda *_applied: None
    #: An entry was applied: the machine.
    ended: Callable[[Machine], None] = lambda _machine: None


class Oracle:
    """The one right order, and the one right state."""

    def __init__(self, world: Clock, cluster_id: int, violate: Callable[[str], None]) -> None:
        self._world = world
        self._violate = violate
        self._keys = Keyspace(PREFIX)
        self.machine = Machine(cluster_id, known_levels=NEXT_LEVELS)
        self.machine.replace(capture.new_machine(cluster_id))
        #: Times of the world, and the zxid from then on.
        self.times: list[float] = [0.0]
        self.zxids: list[int] = [0]
        #: After n entries: steps[n - 1].
        self.steps: list[Step] = []
        #: Clients' writes, by session.
        self.writes: dict[int, list[Logged]] = {}
        #: By session that did not close itself, the zxid of its end.
        self.ends: dict[int, int] = {}
        #: By zxid, of clients' requests.
        self.done: dict[int, Done] = {}
        #: Requests that were applied, and branches of `sometimes` that the log shows.
        self.counts: Counter[str] = Counter()
        self.listeners = Listeners()
        self._numbers: dict[str, int] = {}
        self._early: dict[str, dict[int, bytes]] = {}
        #: Incarnations whose keys are gone.
        self.over: set[str] = set()
        self._sealed = False  # the tree has moved

    def begin(self, machine: Machine) -> None:
        """Continue from a state that was loaded."""
        self.machine.replace(machine)
        self._numbers = dict(machine.applied)
        self._early.clear()
        self._sealed = False

    @property
    def numbers(self) -> dict[str, int]:
        """The last number that took effect, by incarnation."""
        return self._numbers

    @property
    def requests(self) -> int:
        """How many were applied."""
        return self.counts[_REQUESTS]

    @property
    def now(self) -> float:
        """The world's time."""
        return self._world.now

    def forget(self) -> None:
        """Drop what is kept of past requests, but for the newest zxid."""
        self.times, self.zxids = [self._world.now], [self.machine.zxid]
        self.steps.clear()
        self.writes.clear()
        self.ends.clear()
        self.done.clear()

    # -- the order -------------------------------------------------------------------------------------------

    def committed(self, events: list[Any]) -> None:
        """A revision of etcd."""
        senders: set[str] = set()
        for event in events:
            try:
                kind, incarnation, number = self._keys.parse(event.kv.key)
            except ForeignKey:
                continue
            if kind is KeyKind.PROXY:
                if event.type == DELETE:
                    self.over.add(incarnation)
                    if self._early.pop(incarnation, None):
                        self.counts[sometimes.GAP_STAYS] += 1
            elif kind is KeyKind.TREE and event.type != DELETE:
                self._sealed = decode_record(event.kv.value).seal is not None
            elif kind is KeyKind.ENTRY and event.type != DELETE:
                senders.add(incarnation)
                self._entry(incarnation, number, event)
        self.counts[sometimes.COMBINED] += len(senders) > 1

    def _entry(self, incarnation: str, number: int, event: Event) -> None:
        if self._is_late(incarnation, number):
            return
        if self._sealed:
            self._violate(f"entry {number} of {incarnation} was appended behind the seal")
            return
        following = self._numbers.get(incarnation, 0) + 1
        if number < following:
            return  # a late copy
        self._early.setdefault(incarnation, {})[number] = event.kv.value
        early = self._early[incarnation]
        if number == following and len(early) > 1:
            self.counts[sometimes.GAP_CLOSES] += 1
        while (value := early.pop(following, None)) is not None:
            self._numbers[incarnation] = following
            self.apply(incarnation, following, value)
            following += 1
        if early:
            self.listeners.gap(incarnation)

    def _is_late(self, incarnation: str, number: int) -> bool:
        """Whether the key of this incarnation is gone, which is wrong."""
        if incarnation in self.over:
            self._violate(f"entry {number} of {incarnation} was appended after the end of its incarnation")
            return True
        return False

    # -- the state -------------------------------------------------------------------------------------------

    def apply(self, incarnation: str, number: int, value: bytes) -> None:
        """Apply an entry, which takes effect now."""
        if self._is_late(incarnation, number):
            return
        machine = self.machine
        entry = decode_entry(value)
        machine.begin(incarnation, number, entry.clock, entry.rules, entry.checkpoint, entry.digest)
        self.listeners.entered(incarnation, entry.clock)
        for request in entry.requests:
            before = machine.zxid
            due = decode_node_due(request.body).path if request.kind == Kind.NODE_DUE else ""
            node = machine.tree.nodes.get(due)
            outcome = machine.execute(request, None, True)
            if node is not None and due not in machine.tree.nodes:
                self.listeners.due(due, node)
            self.counts[_REQUESTS] += 1
            self._note(request, before, outcome)
            self.listeners.applied(incarnation, entry.clock, entry.rules, request, outcome, machine)
        machine.end()
        digest = machine.digest.settle(machine.tree.nodes)
        self.steps.append(Step(incarnation, number, machine.zxid, digest))
        self.times.append(self._world.now)
        self.zxids.append(machine.zxid)
        self.listeners.ended(machine)

    def _note(self, request: Request, before: int, outcome: Outcome) -> None:
        machine = self.machine
        if request.kind == Kind.CLIENT:
            self.counts[sometimes.OVER_BUDGET] += outcome.err == ErrorCode.THROTTLED_OP
            if machine.zxid > before:
                self.done[machine.zxid] = Done(request.session_id, request.opcode, int(outcome.err))
                self.writes.setdefault(request.session_id, []).append(
                    Logged(
                        self._world.now,
                        machine.zxid,
                        int(request.opcode),
                        request.body,
                        int(outcome.err),
                        outcome.body,
                    )
                )
            if request.opcode == OpCode.CLOSE_SESSION and not outcome.err:
                self._check_ephemerals(request.session_id)
        elif request.kind == Kind.CLOSE and not outcome.err:
            self.ends[request.session_id] = machine.zxid
            self.listeners.expired(request.session_id, decode_close(request.body).holder)
            self._check_ephemerals(request.session_id)
        elif request.kind == Kind.CARRY_OVER and not outcome.err:
            self.counts[sometimes.CARRY_OVER] += 1
        elif request.kind == Kind.ATTACH and outcome.err == ErrorCode.SESSION_EXPIRED:
            self.counts[sometimes.EXPIRED_ATTACH] += 1
        for change in machine.session_changes:
            carried = isinstance(change, CarriedOver)
            ids = change.session_ids if isinstance(change, CarriedOver) else [change.session_id]
            if change.incarnation is not None:
                for session_id in ids:
                    timeout_ms = machine.sessions[session_id].timeout_ms
                    self.listeners.attached(session_id, change.incarnation, timeout_ms, carried)

    def _check_ephemerals(self, session: int) -> None:
        left = [path for path, node in self.machine.tree.nodes.items() if node.owner == session]
        if left:
            self._violate(f"session {session:#x} is over, and its ephemeral nodes are not: {left}")

    def zxid_at(self, time: float) -> int:
        """The zxid of everything that was in the log at a time of the world."""
        return self.zxids[max(0, bisect.bisect_right(self.times, time) - 1)]

    # -- what others do --------------------------------------------------------------------------------------

    def compare(
        self, who: str, machine: Machine, explained: Callable[[str], bool] = lambda _who: False
    ) -> None:
        """A machine has applied an entry. `explained` says whether it may be wrong by a fault."""
        if machine is self.machine:
            return
        wrong = self._difference(who, machine)
        if wrong and not explained(who):
            self._violate(wrong)

    def _difference(self, who: str, machine: Machine) -> str:
        """The first difference of a machine from the right state; "" if there is none."""
        count = machine.entries
        if not 0 < count <= len(self.steps):
            return f"{who} has applied {count} entries; the log has {len(self.steps)}"
        step = self.steps[count - 1]
        applied = machine.applied.get(step.incarnation, 0)
        if applied != step.number:
            return (
                f"{who}: entry {count} of the log is number {step.number} of {step.incarnation}, but after"
                f" {count} entries number {applied} of it is applied"
            )
        digest = machine.digest.settle(machine.tree.nodes)
        if (machine.zxid, digest) != (step.zxid, step.digest):
            return (
                f"{who}: after {count} entries zxid {machine.zxid:#x} and digest {digest:016x}; right are"
                f" {step.zxid:#x} and {step.digest:016x}"
            )
        return ""

    def compare_bytes(self, who: str, machine: Machine) -> None:
        """A machine that has applied everything: the same bytes as the oracle's."""
        if machine.entries != self.machine.entries:
            self._violate(f"{who} has applied {machine.entries} entries of {self.machine.entries}")
        elif pages_of(machine) != pages_of(self.machine):
            self._violate(f"{who}: the pages of its state differ from those of the oracle's")
        elif machine.compute_digest() != self.machine.compute_digest():
            self._violate(f"{who}: the digest from scratch differs from the oracle's")


def pages_of(machine: Machine) -> list[bytes]:
    """The whole state as bytes."""
    captured = capture.pages(machine)
    return [captured.state, *captured.session_pages, *captured.node_pages]
