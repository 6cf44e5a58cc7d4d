"""Requests that may be expensive, on states that may make them so, and what they cost.

An input is a genome: each byte chooses the size of one part of the state, or a part of the request. What a
request costs is measured in units of a meter: lines of Python code, which are the same in every run, or
seconds of CPU time, which also see the work of C code.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

from typing_extensions import override

from codec.constants import ErrorCode, KeeperOpCode, OpCode
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
from proxy.state.ops.remove_recursive import REMOVE_RECURSIVE
from proxy.state.outcome import Refusal
from proxy.state.pause import BRIEFLY, LENGTHS, NO_PAUSE, Lengths, Pause, TooLong
from proxy.state.watches import WatchTable
from schema.entry import Identities, Identity, Kind, Request, Rules, encode_terms

_CREATES = [opcode for opcode, write in EXTENDED.writes.items() if write.effect is Effect.CREATES]
_OWN, _OTHER = 1, 2  # sessions
_INCARNATION = "costs"
_RULES = int(Rules.EXTENDED_TYPES | Rules.ENFORCE_QUOTA | Rules.KEEPER)
_DEEPEST = "/d"
_UNLIMITED = (1 << 31) - 1


class Scale(NamedTuple):
    """How large states and requests get: powers of two."""

    items: int  # of one kind in the state
    data: int  # bytes of a large node
    parts: int  # of a request
    auth: AuthEntries
    lengths: Lengths


#: Bytes of an input for the state, and for each of the requests.
GENES_OF_STATE, GENES = 11, 7
_MOST_REQUESTS = 4


#: For every run of the tests.
SMALL = Scale(
    7,
    10,
    8,
    AuthEntries(1 << 14, LIMITS.expanded_per_byte),
    Lengths(every=16, at_once=32, decoded_at_once=512),
)
#: As a server may meet them.
LARGE = Scale(14, 20, 15, AuthEntries(LIMITS.expanded, LIMITS.expanded_per_byte), LENGTHS)
#: Bytes of the largest request: jute.maxbuffer.
_MOST = 1 << 20


# -- meters --------------------------------------------------------------------------------------------------


class Lines:
    """Counts the lines of Python code that run, and the calls."""

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
    """Notes the longest stretch of work between two pauses."""

    def __init__(self, now: Callable[[], float], lengths: Lengths) -> None:
        super().__init__(lengths)
        self._now = now
        self._began = self._since = now()
        self.longest = 0.0
        #: Whether slow reads are refused, as in a turn of the loop.
        self.refuses = False

    @override
    def __call__(self) -> None:
        super().__call__()
        now = self._now()
        self.longest = max(self.longest, now - self._since)
        self._since = now

    @override
    def expect(self, steps: int) -> None:
        if self.refuses and steps > self.lengths.at_once:
            raise TooLong(steps)

    @property
    def total(self) -> float:
        """All the work so far."""
        return self._now() - self._began


class Bill(NamedTuple):
    """What one request has cost."""

    opcode: int
    answer: int  # its error code
    total: float
    longest: float  # stretch without a pause
    sent: int  # bytes of the request, with the identities that it carries
    received: int  # bytes of the reply and the events
    changes: int  # nodes
    cost: Cost


# -- states --------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """The sizes of one state's parts."""

    wide: int  # children of one node
    deep: int  # steps of the deepest path
    heavy: int  # nodes with much data, and their bytes
    heavy_bytes: int
    entries: int  # of a long ACL
    identities: int  # of the client
    ephemerals: int  # of the client
    watches: int  # of the client, one-shot
    watchers: int  # connections that watch the whole tree
    lengths: int  # lasting watches whose paths all have different lengths
    quotas: int  # the same of quotas


def sizes(genes: Iterator[int], scale: Scale) -> Sizes:
    """Read sizes from an input. A square of one of them costs no more than the others."""

    def size(most: int) -> int:
        return (1 << next(genes, 0) % (most + 1)) - 1

    items = scale.items
    half = items * 2 // 3
    return Sizes(
        size(items), size(half), size(half // 2), size(scale.data), size(half),
        size(min(items, 8)), size(items), size(items), size(half), size(half), size(half),
    )  # fmt: skip


class _Client:
    """A connection: it reads and watches."""

    def __init__(self, session_id: int, identities: Identities = ()) -> None:
        self.session_id = session_id
        self.identities = identities
        self.knows_keeper = True
        self.received = 0

    def notify(self, notifications: Notifications) -> None:
        """Count the bytes of an event."""
        if notifications.are_for(self.identities):
            self.received += sum(map(len, notifications.packets(encode_event)))

    def local_session_closed(self) -> None:
        """The session is closed."""


class World:
    """A machine in some state, its watches, and the client that sends the requests."""

    def __init__(self, of: Sizes, scale: Scale, meter: Lines | CpuTime) -> None:
        self.sizes = of
        self._scale = scale
        self._meter = meter
        self.machine = machine = new_machine(7)
        self.watches = WatchTable()
        self.identities = (
            Identity("ip", "127.0.0.1"),
            *(Identity("digest", f"user{number}:hash") for number in range(of.identities)),
        )
        self.client = _Client(_OWN, self.identities)
        self.watchers = [_Client(_OTHER) for _ in range(of.watchers)]
        self._entries = 0
        self.deepest = _DEEPEST * (of.deep + 1)
        for session in (_OWN, _OTHER):
            self._apply(Request(Kind.OPEN, session, 0, (), encode_terms(10_000, bytes(16))))
        self._grow()
        machine.transaction.watched = True

    def _grow(self) -> None:
        of = self.sizes
        for path in ("/wide", "/heavy", "/own", "/acl"):
            self._create(path)
        for number in range(of.wide):
            self._create(f"/wide/n{number}")
        for step in range(of.deep + 1):
            self._create(_DEEPEST * (step + 1))
        for number in range(of.heavy):
            self._create(f"/heavy/n{number}", bytes(of.heavy_bytes))
        for number in range(of.ephemerals):
            self._create(f"/own/n{number}", flags=1)
        acl = tuple(Acl(1, "digest", f"other{number}:hash") for number in range(of.entries))
        self._create("/acl/n0", acl=(*acl, Acl(31, "world", "anyone")))
        for number in range(of.quotas):
            quota = "/zookeeper/quota/" + "q" * (number + 1)
            for path in (quota, f"{quota}/zookeeper_limits", f"{quota}/zookeeper_stats"):
                self._create(path, b"count=1")
        for number in range(of.watches):
            self.watches.data.add(f"/wide/n{number}", self.client)
            self.watches.children.add(f"/none{number}", self.client)
        for watcher in self.watchers:
            self.watches.add_lasting("/", watcher, recursive=True)
        for number in range(of.lengths):
            self.watches.add_lasting("/" + "l" * (number + 1), self.client, recursive=True)

    def _create(self, path: str, data: bytes = b"", acl: tuple[Acl, ...] = OPEN_ACL, flags: int = 0) -> None:
        body = pack_string(path) + pack_buffer(data) + pack_acls(acl) + INT.pack(flags)
        self._apply(Request(Kind.CLIENT, _OWN, OpCode.CREATE, (), body))

    def _apply(self, request: Request) -> None:
        self._entries += 1
        self.machine.begin(_INCARNATION, self._entries, 1_600_000_000_000 + self._entries, _RULES)
        self.machine.execute(request)
        self.machine.end()

    def bill(self, opcode: int, body: bytes) -> Bill:
        """Let the client send a request, and measure what it costs its own proxy."""
        before = self.client.received, sum(watcher.received for watcher in self.watchers)
        measure = self._write if opcode in EXTENDED.writes else self._read
        with self._meter.running():
            meter, answer, received, changes = measure(opcode, body)
        events = self.client.received - before[0] + sum(each.received for each in self.watchers) - before[1]
        sent = len(body)
        if opcode in EXTENDED.writes:
            sent += sum(len(scheme) + len(name) for scheme, name in self.identities)
        return Bill(
            opcode,
            answer,
            meter.total,
            meter.longest,
            sent,
            received + events,
            changes,
            cost_of(opcode, body),
        )

    def _read(self, opcode: int, body: bytes) -> tuple[Meter, int, int, int]:
        meter = Meter(self._meter.now, self._scale.lengths)
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
        meter()
        return meter, err, len(reply), 0

    def _write(self, opcode: int, body: bytes) -> tuple[Meter, int, int, int]:
        """At the proxy that has sent it: it is decoded, applied, answered; and the digest is taken."""
        machine = self.machine
        operation = EXTENDED.writes[opcode]
        if operation.has_acl and self._scale.auth.are_too_much(body, self.identities):
            return Meter(self._meter.now, self._scale.lengths), ErrorCode.INVALID_ACL, 0, 0
        self._entries += 1
        machine.entries += -machine.entries % CHECKPOINT_EVERY - 1  # so that this entry ends with a digest
        meter = Meter(self._meter.now, self._scale.lengths)
        fields = None
        with suppress(MalformedPacket, TooLong):
            is_short = len(body) <= self._scale.lengths.decoded_at_once
            fields, _ = operation.decode(body, 0, NO_PAUSE if is_short else BRIEFLY)
        meter()
        machine.begin(_INCARNATION, self._entries, 1_600_000_000_000 + self._entries, _RULES)
        machine.transaction.pause = meter
        request = Request(Kind.CLIENT, _OWN, opcode, self.identities, body)
        outcome = machine.execute(request, fields, wants_reply=True)
        changes = len(machine.transaction.events)
        self.watches.fire(machine.transaction.events, machine.zxid, meter)
        meter()
        machine.end()
        meter()
        return meter, outcome.err, len(outcome.body), changes


# -- requests ------------------------------------------------------------------------------------------------


class _Pieces(NamedTuple):
    """What the parts of a request are made of."""

    world: World
    variant: int

    def path(self, kind: int, number: int) -> str:
        """A path of one of the kinds that a state has."""
        places = (
            f"/wide/n{number % (self.world.sizes.wide or 1)}",
            "/wide",
            self.world.deepest,
            f"/heavy/n{number % (self.world.sizes.heavy or 1)}",
            f"/own/n{number}",
            "/acl/n0",
            f"/new{number}",
            "/",
            f"/zookeeper/quota/{'q' * (number % (self.world.sizes.quotas or 1) + 1)}/zookeeper_limits",
            "/new/" * (number % 8 + 1),
        )
        return places[kind % len(places)]

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
_ENDS = 8  # of the variants of a multi, so many have no part that fails


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
        body = b""
        each = ((part, kind, number) for number in range(count) for part, kind in parts)
        for part, kind, number in each:
            body += MULTI_HEADER.pack(part, False, -1) + made.fields(part, kind, number)
            if len(body) > _MOST:
                break
        if opcode == OpCode.MULTI and made.variant < _ENDS:
            body += MULTI_HEADER.pack(OpCode.CHECK, False, -1) + pack_string("/none") + INT.pack(-1)
        return opcode, body + END_OF_PARTS
    if opcode in {*_CREATES, OpCode.SET_ACL}:  # as many entries as the largest request has room for
        made = _Pieces(world, made.variant % 16 + (count & ~15))
    return opcode, made.fields(opcode, kinds[0], 0)


def cost_of(opcode: int, body: bytes) -> Cost:
    """What the request may cost: a multi all that its parts may."""
    if opcode in EXTENDED.reads:
        return EXTENDED.reads[opcode].cost
    cost = EXTENDED.writes[opcode].cost
    if opcode == OpCode.MULTI and MULTI_HEADER.pack(KeeperOpCode.REMOVE_RECURSIVE, False, -1) in body:
        cost |= REMOVE_RECURSIVE.cost
    return cost


def measured(data: bytes, scale: Scale, meter: Lines | CpuTime) -> Iterator[Bill]:
    """Make the state of an input, and the bills of its requests, which follow one another."""
    genes = iter(data)
    world = World(sizes(genes, scale), scale, meter)
    for _ in range(min(len(data) - GENES_OF_STATE, _MOST_REQUESTS * GENES) // GENES):
        yield world.bill(*request(genes, world, scale))
