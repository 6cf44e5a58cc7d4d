"""Requests that may be expensive, on states that may make them so, and what they cost.

An input is a genome: each byte chooses the size of one part of the state, or a part of the request. What a
request costs is measured in units of a meter: lines of Python code, which are the same in every run, or
seconds of CPU time, which also see the work of C code.

A state is a chain of nodes with leaves below its end, so that whatever multiplies the cost of a change meets
in one place: quotas and watches of all ancestors, ACLs that alternate, many parents, large data.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import cycle, islice
from types import FrameType
from typing import Any, NamedTuple

from typing_extensions import override

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, LONG, OPEN_ACL, Acl, pack_acls, pack_buffer, pack_string, pack_strings
from codec.packets import MULTI_HEADER, STAT, encode_event
from lab.oracle.requests import RECORDS
from proxy.frontend.authentication import AuthEntries
from proxy.frontend.limits import LIMITS
from proxy.state.capture import new_machine
from proxy.state.effect import Effect
from proxy.state.machine import CHECKPOINT_EVERY
from proxy.state.notifications import Notifications
from proxy.state.operation import Cost, Reading
from proxy.state.ops import EXTENDED, EXTENDED_PARTS, MULTI_READ
from proxy.state.ops.multi import END_OF_PARTS
from proxy.state.outcome import Refusal
from proxy.state.pause import BRIEFLY, LENGTHS, NO_PAUSE, Lengths, Pause, TooLong
from proxy.state.rights import OPEN, Rights, permits, rights_of
from proxy.state.transaction import IN_VAIN
from proxy.state.watches import WatchTable
from schema.entry import Identities, Identity, Kind, Request, Rules, encode_terms
from schema.paths import parent_of

_CREATES = [opcode for opcode, write in EXTENDED.writes.items() if write.effect is Effect.CREATES]
_OWN, _OTHER = 1, 2  # sessions
_INCARNATION = "costs"
_RULES = int(Rules.EXTENDED_TYPES | Rules.ENFORCE_QUOTA | Rules.KEEPER)
_NOT_OPEN = rights_of((Acl(2, "ip", "127.0.0.3"), Acl(2, "digest", "other:hash")))
_UNLIMITED = (1 << 31) - 1
#: Bytes of an input for the state, and for each of the requests.
GENES_OF_STATE, GENES = 11, 7


# -- meters --------------------------------------------------------------------------------------------------


class Lines:
    """Counts the lines of Python code that run, and the calls. The same in every run."""

    #: Of a step of C code that the code declares (`Pause.spend`): lines do not see it.
    step = 8.0

    def __init__(self) -> None:
        self.count = 0

    def now(self) -> float:
        """The lines so far."""
        return self.count

    def _trace(self, _frame: FrameType, _event: str, _argument: object) -> Any:
        self.count += 1
        return self._trace

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what is called here."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)


class CpuTime:
    """Seconds of CPU time of this thread."""

    step = 0.0
    now = staticmethod(time.thread_time)

    @contextmanager
    def running(self) -> Iterator[None]:
        """As Lines'. Without the garbage collector, which a server seldom runs (serve.__main__)."""
        gc.disable()
        try:
            yield
        finally:
            gc.enable()


class Meter(Pause):
    """Notes all work, and the longest stretch of it between two pauses."""

    def __init__(self, clock: Lines | CpuTime, lengths: Lengths) -> None:
        super().__init__(lengths)
        self._clock = clock
        self._began = self._since = clock.now()
        self._spent = 0
        self.longest = 0.0
        #: Whether slow reads are refused, as in a turn of the loop.
        self.refuses = False

    @override
    def __call__(self) -> None:
        super().__call__()
        now = self._clock.now()
        self.longest = max(self.longest, now - self._since)
        self._since = now

    @override
    def expect(self, steps: int) -> None:
        if self.refuses and steps > self.lengths.at_once:
            raise TooLong(steps)

    @override
    def spend(self, steps: int) -> None:
        self._spent += steps
        super().spend(steps)

    @property
    def total(self) -> float:
        """All the work so far."""
        return self._clock.now() - self._began + self._spent * self._clock.step


# -- bounds --------------------------------------------------------------------------------------------------


class Bill(NamedTuple):
    """What one request has cost."""

    opcode: int
    answer: int  # its error code
    total: float
    longest: float  # stretch without a pause
    sent: int  # bytes of the request
    received: int  # bytes of the reply
    changes: int  # nodes
    notified: int  # watchers, of all events
    kept: int  # bytes by which the tree has grown
    cost: Cost

    @property
    def paid(self) -> float:
        """What may cost something, in bytes of a request; each counts some for its way through the log."""
        return _ENVELOPE + self.sent + self.received / 16 + 32 * self.changes + self.notified


class Scale(NamedTuple):
    """How large states and requests get, in powers of two; the meter, and how much of it is too much."""

    items: int  # of one kind in the state
    steps: int  # of the chain
    watchers: int
    parts: int  # of a request
    lengths: Lengths
    meter: type[Lines | CpuTime]
    per_byte: float
    stretch: float
    stretch_per_byte: float

    def shares(self, bill: Bill) -> dict[str, float]:
        """Each measure of a request as a share of its bound: above 1 is too much."""
        stretch = self.stretch + self.stretch_per_byte * (bill.sent + bill.received)
        shares = {"stretch": bill.longest / stretch, "kept": bill.kept / (_KEPT * (_ENVELOPE + bill.sent))}
        if Cost.SEARCH not in bill.cost:
            shares["work"] = bill.total / (self.per_byte * bill.paid)
        return shares


#: For every run of the tests. A stretch has 16 steps, and what each request costs.
SMALL = Scale(9, 8, 6, 7, Lengths(every=16, at_once=32, decoded_at_once=512), Lines, 30, 5000, 5)
#: As a server may meet them.
LARGE = Scale(13, 10, 7, 13, LENGTHS, CpuTime, 5e-6, 0.05, 0)
# Bytes that each request counts, beside its own, for its way through the log.
_ENVELOPE = 256
# Bytes that are kept for good for one that was sent.
_KEPT = 16
# Bytes of the largest request and of the largest node: jute.maxbuffer.
_MOST = 1 << 20
# Bytes of all data and paths of a state, and its watches.
_MOST_IN_ALL, _MOST_WATCHES = 1 << 25, 1 << 15
_FEW_CHANGES = 8


# -- states --------------------------------------------------------------------------------------------------


class Trait:
    """What a state's parts are like: bits."""

    EPHEMERAL = 1  # the leaves are the client's
    HIDDEN = 2  # and only it may read them
    WORDS = 4  # the path of each step has one letter more than the one before, so none is below another
    RECURSIVE = 8  # steps are watched so
    PERSISTENT = 16
    ONCE = 32  # leaves, and the children of their parents


class Sizes(NamedTuple):
    """The sizes of one state's parts."""

    steps: int = 0  # of a chain of nodes
    leaves: int = 0  # below its end
    parents: int = 0  # nodes between, among which the leaves are spread
    data: int = 0  # bytes of a leaf
    acls: int = 0  # of the leaves, in turn
    entries: int = 0  # of each ACL
    quotas: int = 0  # steps that have one
    watchers: int = 0  # connections
    watched: int = 0  # steps that each of them watches
    identities: int = 0  # of the client
    traits: int = 0


def sizes(genes: Iterator[int], scale: Scale) -> Sizes:
    """Read sizes from an input. A square of some of them costs no more than the others."""

    def size(most: int) -> int:
        return (1 << next(genes, 0) % (most + 1)) - 1

    items, steps = scale.items, scale.steps
    of = Sizes(
        size(steps), size(items), size(items), size(20), size(6), size(steps),
        size(steps), size(scale.watchers), size(steps), size(8), next(genes, 0),
    )  # fmt: skip
    leaves = min(of.leaves, _MOST_IN_ALL // (2 * of.steps + 16))
    data = min(of.data, _MOST_IN_ALL // (leaves or 1))
    return of._replace(leaves=leaves, data=data, watched=min(of.watched, _MOST_WATCHES // (of.watchers or 1)))


@cache
def _identities(address: str, count: int, _of_watcher: int = 0) -> Identities:
    """What a client has proved. Each has a list of its own; what checks have made of it is kept."""
    return Identity("ip", address), *(Identity("digest", f"user{number}:hash") for number in range(count))


class _Client:
    """A connection: it reads and watches."""

    def __init__(self, session_id: int, identities: Identities) -> None:
        self.session_id = session_id
        self.identities = identities
        self.knows_keeper = True
        self.notified = 0

    def notify(self, notifications: Notifications) -> None:
        """Count the events."""
        if notifications.are_for(self.identities):
            self.notified += len(notifications.packets(encode_event))

    def local_session_closed(self) -> None:
        """The session is closed."""


class World:
    """A machine in some state, its watches, and the client that sends the requests."""

    def __init__(self, of: Sizes, scale: Scale) -> None:
        self.sizes = of
        step = "c" if of.traits & Trait.WORDS else "/c"
        self.steps = ["/c" + step * number for number in range(of.steps + 1)]
        end = self.steps[-1]
        self.parents = [f"{end}/p{number}" for number in range(of.parents)] or [end]
        parents = cycle(self.parents)
        self.leaves = [f"{next(parents)}/n{number}" for number in range(of.leaves or 1)]
        self._scale = scale
        self._clock = scale.meter()
        self.machine = machine = new_machine(7)
        self.watches = WatchTable()
        self.client = _Client(_OWN, _identities("127.0.0.1", of.identities))
        self.watchers = [
            _Client(_OTHER, _identities("127.0.0.2", 0, number)) for number in range(of.watchers)
        ]
        for client in (self.client, *self.watchers):  # as after its first request or event
            permits(_NOT_OPEN, 2, client.identities)
        self._auth = AuthEntries(LIMITS.expanded, LIMITS.expanded_per_byte)
        self._entries = 0
        self._begin()
        for session in (_OWN, _OTHER):
            machine.execute(Request(Kind.OPEN, session, 0, (), encode_terms(10_000, bytes(16))))
        machine.transaction.zxid = machine.zxid = machine.zxid + 1
        self._grow()
        machine.transaction.commit()
        machine.transaction.events.clear()
        self._watch()
        machine.end()

    def _begin(self) -> None:
        """The next entry. It will end with a digest."""
        self._entries += 1
        machine = self.machine
        machine.entries += -machine.entries % CHECKPOINT_EVERY - 1
        machine.begin(_INCARNATION, self._entries, 1_600_000_000_000 + self._entries, _RULES)

    def create(self, path: str, data: bytes = b"", rights: Rights = OPEN, owner: int = 0) -> None:
        """Create a node of the state."""
        tx = self.machine.transaction
        above = parent_of(path)
        tx.create(path, above, tx.nodes[above], data, rights, owner)

    def _grow(self) -> None:
        of = self.sizes
        rights = [self._rights(number) for number in range(of.acls)] or [OPEN]
        owner = _OWN if of.traits & Trait.EPHEMERAL else 0
        for path in (*self.steps, *self.parents[: of.parents]):
            self.create(path)
        for number, path in enumerate(self.leaves[: of.leaves]):
            self.create(path, bytes(of.data), rights[number % len(rights)], owner)
        for step in self.steps[: of.quotas]:
            quota = f"/zookeeper/quota{step}"
            for path in (quota, f"{quota}/zookeeper_limits", f"{quota}/zookeeper_stats"):
                self.create(path, b"count=1")

    def _rights(self, number: int) -> Rights:
        others = range(self.sizes.entries + 1)
        acl = [Acl(31, "ip", "127.0.0.1"), *(Acl(1, "digest", f"u{number}-{each}:hash") for each in others)]
        if not self.sizes.traits & Trait.HIDDEN:
            acl.append(Acl(1, "world", "anyone"))
        return rights_of(tuple(acl))

    def _watch(self) -> None:
        of, watches = self.sizes, self.watches
        for watcher in self.watchers:
            for step in self.steps[: of.watched]:
                if of.traits & Trait.RECURSIVE:
                    watches.add_lasting(step, watcher, recursive=True)
                if of.traits & Trait.PERSISTENT:
                    watches.add_lasting(step, watcher, recursive=False)
            if of.traits & Trait.ONCE:
                for path in self.leaves[: _MOST_WATCHES // of.watchers]:
                    watches.data.add(path, watcher)
                    watches.children.add(parent_of(path), watcher)
        self.machine.transaction.watched = True

    def bill(self, opcode: int, body: bytes) -> Bill:
        """Let the client send a request, and measure what it costs its own proxy.

        What changes nothing may come again and again: then it is measured when nothing more may be searched
        in vain.
        """
        bill = self._bill(opcode, body)
        if opcode in EXTENDED.writes and not bill.changes:
            tx = self.machine.transaction
            tx.paid_at = self.machine.zxid + IN_VAIN
            bill = self._bill(opcode, body)
            tx.paid_at = 0
        return bill

    def _bill(self, opcode: int, body: bytes) -> Bill:
        before = self._notified()
        size = self.machine.tree.size
        is_write = opcode in EXTENDED.writes
        with self._clock.running():
            meter = Meter(self._clock, self._scale.lengths)
            answer, received, changes = (self._write if is_write else self._read)(opcode, body, meter)
            meter()
            total = meter.total
        return Bill(
            opcode,
            answer,
            total,
            meter.longest,
            len(body),
            received,
            changes,
            self._notified() - before,
            self.machine.tree.size - size,
            (EXTENDED.writes if is_write else EXTENDED.reads)[opcode].cost,
        )

    def _notified(self) -> int:
        return self.client.notified + sum([watcher.notified for watcher in self.watchers])

    def _read(self, opcode: int, body: bytes, meter: Meter) -> tuple[int, int, int]:
        reading = Reading(self.machine.tree, self.watches, {}, meter)
        answer = EXTENDED.reads[opcode].answer
        meter.refuses = True
        reply, err = b"", 0
        try:
            try:
                reply = answer(reading, self.client, body, 0)
            except TooLong:
                meter()
                meter.refuses = False
                reply = answer(reading, self.client, body, 0)
        except Refusal as refusal:
            reply, err = refusal.body, refusal.code
        except MalformedPacket:
            err = -5
        return err, len(reply), 0

    def _write(self, opcode: int, body: bytes, meter: Meter) -> tuple[int, int, int]:
        """At the proxy that has sent it: it is decoded, applied, answered; and the digest is taken."""
        machine = self.machine
        operation = EXTENDED.writes[opcode]
        if operation.has_acl and self._auth.are_too_much(body, self.client.identities):
            return ErrorCode.INVALID_ACL, 0, 0
        fields = None
        with suppress(MalformedPacket, TooLong):
            is_short = len(body) <= self._scale.lengths.decoded_at_once
            fields, _ = operation.decode(body, 0, NO_PAUSE if is_short else BRIEFLY)
        meter()
        self._begin()
        machine.transaction.pause = meter
        request = Request(Kind.CLIENT, _OWN, opcode, self.client.identities, body)
        outcome = machine.execute(request, fields, wants_reply=True)
        changes = len(machine.transaction.events)
        self.watches.fire(machine.transaction.events, machine.zxid, meter)
        meter()
        machine.end()
        return outcome.err, len(outcome.body), changes


# -- requests ------------------------------------------------------------------------------------------------


class _Pieces(NamedTuple):
    """What the parts of a request are made of."""

    world: World
    variant: int

    def path(self, kind: int, number: int) -> str:
        """A path of one of the kinds that a state has."""
        world = self.world
        step, parent, leaf = [some[number % len(some)] for some in (world.steps, world.parents, world.leaves)]
        match kind % 10:
            case 0:
                return leaf
            case 1:
                return parent
            case 2:
                return step
            case 3:
                return world.steps[-1]
            case 4:
                return f"{leaf}/new"
            case 5:
                return f"{parent}/new{number}"
            case 6:
                return f"/new{number}"
            case 7:
                return "/"
            case 8:
                return f"/zookeeper/quota{step}/zookeeper_limits"
            case _:
                return "/new/" * (number % 8 + 1)

    def acl(self, number: int) -> bytes:
        """An ACL: open, what the client is, or many entries of its own."""
        kind = self.variant % 4
        if kind == 0:
            return pack_acls(OPEN_ACL)
        if kind == 1:
            return pack_acls([Acl(1 + number % 31, "auth", "")])
        if kind == 2:
            return pack_acls([Acl(perms, "auth", "") for perms in range(1, 1 + self.variant)])
        some = range(number, number + self.variant)
        return pack_acls([*(Acl(31, "digest", f"u{each}:h") for each in some), Acl(31, "world", "anyone")])

    def fields(self, opcode: int, kind: int, number: int) -> bytes:
        """The body of a request, or of a part."""
        return b"".join(_FIELDS[name](self, kind, number) for name in RECORDS[opcode])

    def many(self, kind: int, count: int) -> bytes:
        """A vector of paths."""
        count = min(count, _MOST // (len(self.path(kind, 0)) + 8))  # as a request has room for
        return pack_strings([self.path(kind, number) for number in range(count)])


#: Each field of a request, from what it is made of, and the kind and the number of its path.
_FIELDS: dict[str, Callable[[_Pieces, int, int], bytes]] = {
    "path": lambda made, kind, number: pack_string(made.path(kind, number)),
    "prefix": lambda made, kind, number: pack_string(made.path(kind, number)),
    "watch": lambda *_: b"\1",
    "data": lambda *_: pack_buffer(b"count=5"),
    "acls": lambda made, _kind, number: made.acl(number),
    "flags": lambda made, *_: INT.pack((0, 0, 1, 2)[made.variant // 4 % 4]),
    "ttl": lambda *_: LONG.pack(1000),
    "version": lambda *_: INT.pack(-1),
    "stat": lambda *_: STAT.pack(*[-1] * 11),
    "kind": lambda made, *_: INT.pack(1 + made.variant % 3),
    "mode": lambda made, *_: INT.pack(made.variant % 2),
    "limit": lambda made, *_: INT.pack(_UNLIMITED >> made.variant % 31),
    "only": lambda made, *_: bytes((made.variant % 3,)),
    "with_stats": lambda *_: b"\1",
    "with_data": lambda *_: b"\1",
}
_WRITTEN = sorted(map(int, EXTENDED_PARTS))
_READ = sorted(MULTI_READ.parts)
ALL = sorted({*EXTENDED.reads, *EXTENDED.writes} - {OpCode.RECONFIG})
_SETS = (OpCode.SET_WATCHES, OpCode.SET_WATCHES2)


def request(genes: Iterator[int], world: World, scale: Scale) -> tuple[int, bytes]:
    """Read a request from an input: its opcode and body."""
    which, how_many, variant, *kinds, one, other = islice(genes, GENES)
    opcode = int(ALL[which % len(ALL)])
    count = (1 << how_many % (scale.parts + 1)) - 1
    made = _Pieces(world, variant)
    if opcode in _SETS:
        lists = [made.many(kind, count) for kind in (kinds[0], kinds[1], kinds[0])]
        if opcode == OpCode.SET_WATCHES2:
            lists += [made.many(kind, count) for kind in kinds]
        return opcode, LONG.pack(made.variant) + b"".join(lists)
    if opcode in (OpCode.MULTI, OpCode.MULTI_READ):
        choice = _WRITTEN if opcode == OpCode.MULTI else _READ
        parts = [
            (choice[number % len(choice)], kind) for number, kind in zip((one, other), kinds, strict=True)
        ]
        body = bytearray()
        each = ((part, kind, number) for number in range(count) for part, kind in parts)
        for part, kind, number in each:
            body += MULTI_HEADER.pack(part, False, -1) + made.fields(part, kind, number)
            if len(body) > _MOST:
                break
        if opcode == OpCode.MULTI and variant & 4:  # it fails, after all its work
            body += MULTI_HEADER.pack(OpCode.CHECK, False, -1) + pack_string("/none") + INT.pack(-1)
        return opcode, bytes(body) + END_OF_PARTS
    if opcode in {*_CREATES, OpCode.SET_ACL}:  # as many entries as the largest request has room for
        made = _Pieces(world, variant % 16 + (count & ~15))
    return opcode, made.fields(opcode, kinds[0], 0)


def measured(data: bytes, scale: Scale) -> Iterator[Bill]:
    """Make the state of an input, and the bills of its requests.

    These follow one another, but one that has changed much is the last before the state is made again.
    """
    genes = iter(data)
    of = sizes(genes, scale)
    world = World(of, scale)
    for _ in range((len(data) - GENES_OF_STATE) // GENES):
        bill = world.bill(*request(genes, world, scale))
        yield bill
        if bill.changes > _FEW_CHANGES or not world.machine.sessions.get(_OWN):
            world = World(of, scale)
