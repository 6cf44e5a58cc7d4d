"""One session with 32 requests in flight, as a ClickHouse server is: writes, and reads between them.

Each kind of write comes alone and with a getData of another node behind every write. A server that lets
writes wait for the reads before them shows it here.
"""

from collections.abc import Callable, Iterator, Sequence

from typing_extensions import override

from bench import summary, wire
from bench.load import Admin, connected, drive
from bench.scenarios import Cell, Table
from bench.servers import targets
from bench.streams import UniqueStream
from bench.workloads import (
    DATA,
    DATA_REPLY,
    NUMBER,
    STAT_REPLY,
    Asker,
    Workload,
    create_tail,
    expect,
    numbered,
    prepare,
    stat,
)

DEPTH = 32
SECONDS = 2.0
WARM_UP = 0.75
"""Length of the untimed run before each timed one, as a share of that."""
EPHEMERAL_SEQUENTIAL = 3
_DIGITS = len(NUMBER % 0)
_CREATED = wire.MULTI_HEADER.size + 4
_DONE = wire.MULTI_HEADER.size

# The requests of one round by its number, and the sizes of their replies.
Round = tuple[Sequence[Callable[[int], bytes]], Sequence[int]]


class Mix(Workload):
    """Rounds of writes; with `reads`, a getData of the node `other` behind each write."""

    name = "mix"
    writes = 1
    """How many writes there are in a round."""

    def __init__(self, root: bytes, *, reads: bool) -> None:
        super().__init__(root, 1, 0)
        self.reads = reads

    @override
    def nodes(self) -> Iterator[bytes]:
        yield self.root + b"/other"

    def round(self) -> Round:
        """The writes of a round."""
        raise NotImplementedError

    @override
    def stream(self, connection: int) -> UniqueStream:
        makers, sizes = self.round()
        read = numbered(wire.GET_DATA, [wire.read_body(self.root + b"/other")])
        if self.reads:
            makers = [maker for write in makers for maker in (write, read)]
            sizes = [size for write in sizes for size in (write, DATA_REPLY)]
        steps = len(makers)

        def make(number: int) -> bytes:
            request = makers[number % steps](number // steps)
            # The makers count rounds; the xid counts requests.
            return request[:4] + wire.INT.pack(number + 1) + request[8:]

        return UniqueStream(make, sizes)

    def rounds(self, requests: int, place: int) -> int:
        """How many rounds have come as far as their write number `place` (from 0) with so many requests."""
        every = 2 if self.reads else 1
        steps = len(self.round()[0]) * every
        return (requests + steps - 1 - place * every) // steps


class Sets(Mix):
    """setData of one node."""

    name = "setData"

    @override
    def nodes(self) -> Iterator[bytes]:
        yield from super().nodes()
        yield self.root + b"/mine"

    @override
    def round(self) -> Round:
        return [numbered(wire.SET_DATA, [wire.set_body(self.root + b"/mine", DATA)])], [STAT_REPLY]

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        expect("version", stat(admin, self.root + b"/mine").version, self.rounds(counts[0], 0))


class Ephemerals(Mix):
    """Sequential ephemeral nodes in one directory."""

    name = "sequential ephemeral create"

    @override
    def round(self) -> Round:
        path = self.root + b"/n-"
        body = wire.text(path) + wire.INT.pack(_DIGITS)
        make = numbered(wire.CREATE, [body, create_tail(b"", EPHEMERAL_SEQUENTIAL)[4:]])
        return [make], [wire.REPLY_SIZE + 4 + len(path) + _DIGITS]

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        found = stat(admin, self.root)
        expect("children", found.num_children, self.rounds(counts[0], 0) + 1)


class Multis(Mix):
    """The multi that commits an insert: a sequential log entry, a block, a part, and a check."""

    name = "multi"

    @override
    def directories(self) -> list[bytes]:
        return [self.root + b"/" + name for name in (b"log", b"blocks", b"parts", b"host")]

    @override
    def round(self) -> Round:
        make, size = _commit(self.root, b"")
        return [make], [size]

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        for name in (b"/log", b"/blocks", b"/parts"):
            expect(name.decode(), stat(admin, self.root + name).num_children, self.rounds(counts[0], 0))


class ClickHouse(Multis):
    """An insert's round: a block number by a sequential ephemeral, a set, the multi that deletes it again."""

    name = "ClickHouse's round"

    @override
    def directories(self) -> list[bytes]:
        return [*super().directories(), self.root + b"/numbers", self.root + b"/quorum"]

    @override
    def round(self) -> Round:
        number = self.root + b"/numbers/block-"
        allocate = numbered(
            wire.CREATE,
            [
                wire.text(number) + wire.INT.pack(_DIGITS),
                create_tail(b"", EPHEMERAL_SEQUENTIAL)[4:],
            ],
        )
        status = wire.text(self.root + b"/quorum") + wire.INT.pack(_DIGITS)
        announce = numbered(wire.SET_DATA, [status, wire.INT.pack(-1)])
        commit, size = _commit(self.root, number)
        allocated = wire.REPLY_SIZE + 4 + len(number) + _DIGITS
        return [allocate, announce, commit], [allocated, STAT_REPLY, size]

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        for name in (b"/log", b"/blocks", b"/parts"):
            expect(name.decode(), stat(admin, self.root + name).num_children, self.rounds(counts[0], 2))
        held = self.rounds(counts[0], 0) - self.rounds(counts[0], 2)
        expect("block numbers", stat(admin, self.root + b"/numbers").num_children, held)


KINDS: tuple[type[Mix], ...] = (Sets, Ephemerals, Multis, ClickHouse)


def _commit(root: bytes, number: bytes) -> tuple[Callable[[int], bytes], int]:
    """The multi of an insert and the size of its reply; with `number` it deletes that block number too."""
    log, block, part = root + b"/log/log-", root + b"/blocks/", root + b"/parts/"
    create = wire.MULTI_HEADER.pack(wire.CREATE, False, -1)
    pieces = [
        wire.multi_part(wire.CREATE, wire.create_body(log, DATA, wire.SEQUENTIAL))
        + create
        + wire.INT.pack(len(block) + _DIGITS)
        + block,
        create_tail(b"") + create + wire.INT.pack(len(part) + _DIGITS) + part,
        create_tail(DATA) + wire.multi_part(wire.CHECK, wire.check_body(root + b"/host", 0)),
    ]
    size = (
        wire.REPLY_SIZE + sum(_CREATED + len(prefix) + _DIGITS for prefix in (log, block, part)) + 2 * _DONE
    )
    if number:
        pieces[-1] += wire.MULTI_HEADER.pack(wire.DELETE, False, -1)
        pieces[-1] += wire.INT.pack(len(number) + _DIGITS) + number
        pieces.append(wire.INT.pack(-1))
        size += _DONE
    pieces[-1] += wire.MULTI_END
    return numbered(wire.MULTI, pieces), size


def run(scale: float) -> Table:
    """Two seconds a kind at scale 1."""
    seconds = max(0.2, SECONDS * scale)
    found: dict[tuple[str, str, bool], tuple[float, float, float]] = {}
    with targets(("zookeeper", "zketcd")) as servers:
        for number, kind in enumerate(KINDS):
            for reads in (False, True):
                for server in servers:
                    # The first run is for the JVM, which compiles what is hot after ten thousand calls.
                    for root, length in ((b"/warm", seconds * WARM_UP), (b"/mix", seconds)):
                        workload = kind(root + b"-%d-%d" % (number, reads), reads=reads)
                        found[server.name, kind.name, reads] = _measure(server.port, workload, length)
    rows: list[list[Cell]] = []
    for kind in KINDS:
        for reads in (False, True):
            theirs, ours = (found[name, kind.name, reads] for name in ("zookeeper", "zketcd"))
            label = f"{kind.name}, {'a read behind each write' if reads else 'writes alone'}"
            rows.append([label, theirs[0], ours[0], ours[0] / theirs[0], theirs[1], ours[1], ours[2]])
    return Table(
        f"One session with {DEPTH} requests in flight: writes a second",
        [
            "what",
            "ZooKeeper, writes/s",
            "zketcd, writes/s",
            "zketcd / ZooKeeper",
            "ZooKeeper p50, ms",
            "zketcd p50, ms",
            "zketcd p99, ms",
        ],
        rows,
    )


def _measure(port: int, workload: Mix, seconds: float) -> tuple[float, float, float]:
    """Writes a second, and p50 and p99 of all requests in ms."""
    with Admin(port) as admin:
        prepare(workload, admin)
        with connected(port, [workload.stream(0)]) as connections:
            timing = drive(connections, DEPTH, seconds)
            workload.verify(admin, timing.counts)
        admin.close_session()
    share = 0.5 if workload.reads else 1.0
    p50, p99 = summary.percentiles(timing.samples, (0.5, 0.99))
    return share * sum(timing.counts) / timing.seconds, p50 / 1e6, p99 / 1e6
