"""Judges a tree that follows another one: at each position it is the source's state there, and nothing else.

It sees each commit of both etcds at the moment when it is made. Of the source it notes the state after each
entry, as the oracle has it. Of the copy it runs one machine, from the snapshots and entries in its etcd.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.follow.copy import digest_of
from pipeline.follow.target import Position, decode_position
from proof.simulation.etcd import Store
from proof.simulation.oracle import Step
from proof.simulation.proxies import PREFIX
from proof.simulation.seams import NEXT_LEVELS
from proxy.etcd.model import DELETE, Get
from proxy.state import capture
from proxy.state.feed import data_members
from proxy.state.machine import Machine
from proxy.state.node import Node
from schema.entry import decode_entry
from schema.errors import ForeignKey
from schema.keys import KeyKind, Keyspace
from schema.record import SnapshotRef, TreeRecord, decode_record
from schema.znode import session_of
from schema.zxids import next_epoch

QUOTAS = "/zookeeper/quota/"
_PAGES_EACH = 20  # entries of the copy; digests are compared at each


class State(NamedTuple):
    """What the copy and its source must have in common."""

    zxid: int
    nodes: int  # their digest
    sessions: tuple[tuple[int, int, bytes], ...]
    level: int


def state_of(machine: Machine) -> State:
    """Of a machine."""
    sessions = sorted((each.id, each.timeout_ms, each.password_hash) for each in machine.sessions.values())
    return State(machine.zxid, digest_of(machine), tuple(sessions), machine.level)


def node_pages(machine: Machine) -> list[bytes]:
    """All znodes, as bytes."""
    return list(capture.pages(machine).node_pages)


class Znode(NamedTuple):
    """What clients have written into a znode. Data as lines of `lost` have them: text, or in base64."""

    text: str | None
    data: str | None
    version: int
    acl: list[list[Any]]
    aversion: int
    ephemeral: bool

    @classmethod
    def of(cls, node: Node) -> "Znode":
        """As it is now."""
        acl = [list(each) for each in node.acl]
        data = data_members(node.data)
        text, base64 = data["data"], data["data_base64"]
        return cls(text, base64, node.version, acl, node.aversion, bool(session_of(node.owner)))


class Before(NamedTuple):
    """The copy when its source was given up, before the sessions ended."""

    zxid: int
    nodes: dict[str, Znode]


class CopyJudge:
    """Judges one copy."""

    def __init__(self, source: Machine, store: Store, violate: Callable[[str], None]) -> None:
        """`source`: the oracle's machine; `store`: of the copy's etcd."""
        self.keys = Keyspace(PREFIX)
        self._source = source
        self._store = store
        self._violate = violate
        self._states = {source.entries: state_of(source)}  # of the source, by entries
        self._writer = ""  # the only follower that may write
        self._base = ""  # the snapshot that the entries follow
        #: The copy in etcd; None: none has begun.
        self.machine: Machine | None = None
        self.position: Position | None = None
        #: By its own entries.
        self.steps: dict[int, Step] = {}
        #: The copy may be served.
        self.complete = False
        #: The copy is completed without its source, from this state; None: it is not.
        self.lost_at: Before | None = None
        #: Whether that may be.
        self.is_lost = False
        #: Entries of the copy, and snapshots that were compared.
        self.entries = self.snapshots = 0

    def applied(self, machine: Machine) -> None:
        """The source's log has an entry more."""
        self._states[machine.entries] = state_of(machine)

    def committed(self, events: list[Any]) -> None:
        """A revision of the copy's etcd, as long as it is not complete."""
        keys = self.keys
        puts = {event.kv.key: event.kv.value for event in events if event.type != DELETE}
        parsed = [self._parsed(key) for key in puts]
        entries = [(incarnation, number) for kind, incarnation, number in parsed if kind is KeyKind.ENTRY]
        if any(kind is KeyKind.PROXY for kind, _, _ in parsed):
            self._violate("a proxy serves a copy that is not complete")
        record = decode_record(puts[keys.tree]) if keys.tree in puts else None
        if keys.follower in puts:
            self._writer = puts[keys.follower].decode()
        elif record is not None and record.current is not None and record.current.name != self._base:
            self._writer = record.current.writer
        if self.is_lost and record is not None and record.complete and self.machine is not None:
            nodes = self.machine.tree.nodes
            self.lost_at = Before(self.machine.zxid, {path: Znode.of(nodes[path]) for path in nodes})
        for incarnation, number in entries:
            self._apply(incarnation, number, puts)
        if record is not None:
            self._recorded(record)
        if keys.follows in puts:
            position = decode_position(puts[keys.follows])
            if entries and not self.complete and self._is_at(position):
                self._violate(f"what leads to {position} is twice in the copy's log")
            if self.lost_at is not None and self.machine is not None:
                self._compare_lost(self.machine, self.lost_at, position)
            else:
                self._compare(position)

    def _compare_lost(self, machine: Machine, before: Before, position: Position) -> None:
        """The source is given up: a new epoch, no session, no ephemeral node, and all else as it was."""
        if machine.zxid < next_epoch(before.zxid) or machine.zxid & 0xFFFFFFFF:
            self._violate(f"the copy goes on at {machine.zxid:#x} after {before.zxid:#x}: no new epoch")
        if machine.zxid != position.zxid:
            self._violate(f"the copy goes on at {machine.zxid:#x}, its position at {position.zxid:#x}")
        if not self._is_at(position):
            self._violate(f"the copy was at {self.position}, and is completed at {position}")
        if machine.sessions:
            self._violate(f"the copy is completed with the sessions {sorted(machine.sessions)}")
        right = {path: node for path, node in before.nodes.items() if not node.ephemeral}
        found = {path: Znode.of(node) for path, node in machine.tree.nodes.items()}
        wrong = [path for path in sorted({*right, *found}) if right.get(path) != found.get(path)]
        if any(not path.startswith(QUOTAS) for path in wrong):  # these count the ephemeral nodes, too
            self._violate(f"what is completed is not the copy without its ephemeral nodes: {wrong[:5]}")

    def _is_at(self, position: Position) -> bool:
        """Whether the copy has come to this place of the source before."""
        before = self.position
        return before is not None and before.origin is not None and before.origin == position.origin

    def _parsed(self, key: bytes) -> tuple[KeyKind | None, str, int]:
        try:
            return self.keys.parse(key)
        except ForeignKey:
            return None, "", 0

    def _apply(self, incarnation: str, number: int, puts: dict[bytes, bytes]) -> None:
        if incarnation != self._writer:
            self._violate(f"{incarnation} writes an entry of the copy after {self._writer} has taken it over")
        if self.keys.follows not in puts:
            self._violate("an entry of the copy is in etcd without its position")
        if self.machine is None:
            self._violate("an entry of the copy is in etcd before its first snapshot")
            return
        try:
            self.machine.apply(incarnation, number, decode_entry(puts[self.keys.entry(incarnation, number)]))
        except (AssertionError, KeyError) as error:
            self._violate(f"entry {number} of {incarnation} does not fit the copy: {error!r}")
            return
        self.entries += 1
        self._note(self.machine, incarnation, number)

    def _note(self, machine: Machine, incarnation: str = "", number: int = 0) -> None:
        digest = machine.digest.settle(machine.tree.nodes)
        self.steps[machine.entries] = Step(incarnation, number, machine.zxid, digest)

    def _recorded(self, record: TreeRecord) -> None:
        current = record.current
        if current is None or not current.node_pages:
            self.machine = None  # a copy begins
            self.steps.clear()
        elif current.name != self._base:
            self._base = current.name
            self.machine = self._load(current)
            self.snapshots += 1
            self._note(self.machine)
        self.complete = record.complete

    def _load(self, ref: SnapshotRef) -> Machine:
        keys = self.keys
        node_keys = [keys.node_page(ref.name, index) for index in range(ref.node_pages)]
        session_keys = [keys.session_page(ref.name, index) for index in range(ref.session_pages)]
        state, *pages = (
            self._store.range(Get(key)).kvs[0].value
            for key in (keys.state_page(ref.name), *session_keys, *node_keys)
        )
        of_nodes = pages[len(session_keys) :]
        return capture.load(of_nodes, pages[: len(session_keys)], state, ref.digest, NEXT_LEVELS)

    def _compare(self, position: Position) -> None:
        """The copy is at a position: it must be the source's state there."""
        before, self.position = self.position, position
        machine, origin = self.machine, position.origin
        since = None if before is None else before.origin
        if machine is None or origin is None:
            self._violate(f"a position without a copy: {position}")
            return
        if before and since and (position.zxid, origin.entries) < (before.zxid, since.entries):
            self._violate(f"the copy goes back, from {before} to {position}")
        found, right = state_of(machine), self._states.get(origin.entries)
        if found != right or position.zxid != found.zxid:
            self._violate(
                f"the copy's position is zxid {position.zxid:#x}, after {origin.entries} entries of the"
                f" source: it has {_words(found)}; right is {right and _words(right)}"
            )
        if self.entries % _PAGES_EACH or machine.zxid != self._source.zxid:
            return
        if node_pages(machine) != node_pages(self._source):
            self._violate(f"at zxid {machine.zxid:#x} the copy's pages are not those of its source")

    def compare(self, who: str, machine: Machine) -> None:
        """A machine has applied an entry of the copy that is not complete."""
        found = (machine.zxid, machine.digest.settle(machine.tree.nodes))
        right = self.steps.get(machine.entries)
        if right is None or right[2:] != found:
            self._violate(
                f"{who}: after {machine.entries} entries of the copy it has zxid and digest {found}; right is"
                f" {right}"
            )


def _words(state: State) -> str:
    zxid, nodes, sessions, level = state
    return f"zxid {zxid:#x}, digest {nodes:016x}, {len(sessions)} sessions, level {level}"
