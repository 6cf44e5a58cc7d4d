"""The named workloads on ZooKeeper's protocol: what each prepares, sends, and must leave behind.

Every run works under a directory of its own, made by `prepare` and removed by `clean_up`. `verify` compares
the tree with the number of counted replies.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from typing_extensions import override

from bench import wire
from bench.data import SIZE, data, first_of
from bench.errors import EffectsDiffer
from bench.load import Admin
from bench.streams import RepeatedStream, Stream, UniqueStream
from bench.wire import packet, read_body, text
from lab.oracle.wire import Stat

DATA = b"=" * SIZE
"""What prepared nodes hold; in a request of `numbered` it stands for data that differ each time."""
READ_NODES = 256
"""How many nodes the reads go round."""
NODES_PER_WRITER = 16
"""How many nodes of its own each connection's sets go round."""
LISTED_CHILDREN = 10
"""How many children getChildren lists, with names of 10 bytes."""
MIXED_CYCLE = 10
"""One request in so many is a set in the mixed workload."""

# Fixed-width names make all requests of a kind, and all their replies, one size.
NUMBER = b"%010d"
_OTHER_HALF = 10_061  # between the data of one request, far from those of other streams

EMPTY_REPLY = wire.REPLY_SIZE
STAT_REPLY = wire.REPLY_SIZE + wire.STAT_SIZE
DATA_REPLY = wire.REPLY_SIZE + 4 + len(DATA) + wire.STAT_SIZE


class Cell(NamedTuple):
    """What to run: one line of the table."""

    workload: str
    connections: int
    depth: int
    """Requests in flight on each connection."""


class Asker(Protocol):
    """A session to ask by, one request at a time."""

    def call(self, opcode: int, body: bytes) -> bytes:
        """The reply's body; raises BadReply for an error."""


class Workload(ABC):
    """One kind of load; a fresh object for every run."""

    name: str
    has_own_directories = False  # one for each connection

    def __init__(self, root: bytes, connections: int, limit: int) -> None:
        """`root` is the run's own directory, not made yet; `limit` bounds the requests of deletes."""
        self.root = root
        self.connections = connections
        self.limit_per_connection = max(limit // connections, 1)

    def directories(self) -> list[bytes]:
        """Directories to prepare beneath the root, parents first."""
        return self.own_directories() if self.has_own_directories else []

    def nodes(self) -> Iterator[bytes]:
        """Paths of further nodes to prepare, with DATA in them."""
        return iter(())

    @abstractmethod
    def stream(self, connection: int) -> Stream:
        """The requests of one connection."""

    @abstractmethod
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        """Raises EffectsDiffer unless the tree holds what `counts` (replies per connection) promise."""

    def remains(self, counts: Sequence[int]) -> Iterator[bytes]:
        """Paths of the nodes, prepared or made by the run, that are there after it; not the directories."""
        return self.nodes()

    def own_directory(self, connection: int) -> bytes:
        """The directory of one connection."""
        return self.root + b"/c%04d" % connection

    def own_directories(self) -> list[bytes]:
        """The directories of all connections."""
        return [self.own_directory(i) for i in range(self.connections)]

    def numbered_nodes(self, connection: int, numbers: Iterable[int]) -> Iterator[bytes]:
        """The nodes with these numbers in the directory of one connection."""
        directory = self.own_directory(connection)
        return (directory + b"/" + NUMBER % i for i in numbers)

    def expect_children(self, admin: Asker, connection: int, promised: int) -> None:
        """Raises EffectsDiffer unless the directory of one connection has so many children."""
        directory = self.own_directory(connection)
        expect(f"children of {directory!r}", stat(admin, directory).num_children, promised)


def preparation(workload: Workload) -> Iterator[Iterator[tuple[int, bytes]]]:
    """The requests, as (opcode, body), that make the tree that the run needs: directories, then nodes."""
    directories = [workload.root, *workload.directories()]
    yield ((wire.CREATE, wire.create_body(path, b"")) for path in directories)
    yield ((wire.CREATE, wire.create_body(path, DATA)) for path in workload.nodes())


def prepare(workload: Workload, admin: Admin) -> None:
    """Makes the tree that the run needs."""
    for requests in preparation(workload):
        admin.call_many(requests)


def clean_up(workload: Workload, admin: Admin, counts: Sequence[int]) -> None:
    """Removes the run's whole tree, given the replies per connection."""
    directories = [workload.root, *workload.directories()]
    paths = [*workload.remains(counts), *reversed(directories)]
    admin.call_many((wire.DELETE, wire.delete_body(path)) for path in paths)


def expect(what: str, found: int, promised: int) -> None:
    """Raises EffectsDiffer where the tree and the counted replies disagree."""
    if found != promised:
        raise EffectsDiffer(f"{what}: {found}, but the counted replies promise {promised}")


def stat(admin: Asker, path: bytes) -> Stat:
    """The Stat of a node that exists."""
    return wire.decode_stat(admin.call(wire.EXISTS, read_body(path)))


class Get(Workload):
    """getData of 100 bytes from 256 nodes in turn."""

    name = "get"
    opcode = wire.GET_DATA
    reply_size = DATA_REPLY

    @override
    def nodes(self) -> Iterator[bytes]:
        return (self.root + b"/n" + NUMBER % i for i in range(READ_NODES))

    @override
    def stream(self, connection: int) -> Stream:
        paths = list(self.nodes())
        # Connections start at different nodes.
        turn = connection * 37 % len(paths)
        requests = [
            packet(xid, self.opcode, read_body(path))
            for xid, path in enumerate(paths[turn:] + paths[:turn], 1)
        ]
        return RepeatedStream(requests, (self.reply_size,))

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        expect("children", stat(admin, self.root).num_children, READ_NODES)


class Exists(Get):
    """exists of 256 nodes in turn."""

    name = "exists"
    opcode = wire.EXISTS
    reply_size = STAT_REPLY


class GetChildren(Workload):
    """getChildren of a directory with 10 children."""

    name = "children"

    @override
    def nodes(self) -> Iterator[bytes]:
        return (self.root + b"/" + NUMBER % i for i in range(LISTED_CHILDREN))

    @override
    def stream(self, connection: int) -> Stream:
        requests = [packet(xid, wire.GET_CHILDREN, read_body(self.root)) for xid in range(1, 257)]
        return RepeatedStream(requests, (wire.REPLY_SIZE + 4 + LISTED_CHILDREN * (4 + len(NUMBER % 0)),))

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        names = wire.decode_names(admin.call(wire.GET_CHILDREN, read_body(self.root)))
        expect("children", len(names), LISTED_CHILDREN)


class Create(Workload):
    """create of nodes with 100 bytes, each connection in its own directory."""

    name = "create"
    has_own_directories = True

    @override
    def stream(self, connection: int) -> Stream:
        prefix = self.own_directory(connection) + b"/"
        size = len(prefix) + len(NUMBER % 0)
        return UniqueStream(
            numbered(wire.CREATE, [wire.INT.pack(size) + prefix, create_tail(DATA)]),
            (wire.REPLY_SIZE + 4 + size,),
        )

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        for connection, count in enumerate(counts):
            self.expect_children(admin, connection, count)

    @override
    def remains(self, counts: Sequence[int]) -> Iterator[bytes]:
        for connection, count in enumerate(counts):
            yield from self.numbered_nodes(connection, range(count))


class Delete(Workload):
    """delete of prepared nodes with 100 bytes, each connection in its own directory."""

    name = "delete"
    has_own_directories = True

    @override
    def nodes(self) -> Iterator[bytes]:
        for connection in range(self.connections):
            yield from self.numbered_nodes(connection, range(self.limit_per_connection))

    @override
    def stream(self, connection: int) -> Stream:
        prefix = self.own_directory(connection) + b"/"
        size = len(prefix) + len(NUMBER % 0)
        make = numbered(wire.DELETE, [wire.INT.pack(size) + prefix, wire.INT.pack(-1)])
        return UniqueStream(make, (EMPTY_REPLY,), self.limit_per_connection)

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        for connection, count in enumerate(counts):
            self.expect_children(admin, connection, self.limit_per_connection - count)

    @override
    def remains(self, counts: Sequence[int]) -> Iterator[bytes]:
        for connection, count in enumerate(counts):
            yield from self.numbered_nodes(connection, range(count, self.limit_per_connection))


class Set(Workload):
    """setData of 100 bytes without a version, each connection round 16 nodes of its own."""

    name = "set"
    has_own_directories = True

    @override
    def nodes(self) -> Iterator[bytes]:
        for connection in range(self.connections):
            yield from self.own_nodes(connection)

    def own_nodes(self, connection: int) -> list[bytes]:
        """The nodes that one connection writes."""
        return list(self.numbered_nodes(connection, range(NODES_PER_WRITER)))

    @override
    def stream(self, connection: int) -> Stream:
        paths = self.own_nodes(connection)
        requests = [
            packet(
                xid,
                wire.SET_DATA,
                wire.set_body(paths[xid % NODES_PER_WRITER], data(first_of(connection) + xid)),
            )
            for xid in range(1, 257)
        ]
        return RepeatedStream(requests, (STAT_REPLY,))

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        for connection, count in enumerate(counts):
            versions = sum(stat(admin, path).version for path in self.own_nodes(connection))
            expect(f"versions under connection {connection}", versions, self.sets(count))

    def sets(self, count: int) -> int:
        """How many of a connection's first `count` requests are sets."""
        return count


class Mixed(Set):
    """Nine getData to one setData, all on the connection's own 16 nodes."""

    name = "mixed"

    @override
    def stream(self, connection: int) -> Stream:
        paths = self.own_nodes(connection)
        requests = []
        # A multiple of 256 (the xids' low byte) and of the cycle.
        for i in range(256 * MIXED_CYCLE):
            path = paths[i * 7 % NODES_PER_WRITER]
            if i % MIXED_CYCLE == MIXED_CYCLE - 1:
                requests.append(
                    packet(i + 1, wire.SET_DATA, wire.set_body(path, data(first_of(connection) + i)))
                )
            else:
                requests.append(packet(i + 1, wire.GET_DATA, read_body(path)))
        return RepeatedStream(requests, (DATA_REPLY,) * (MIXED_CYCLE - 1) + (STAT_REPLY,))

    @override
    def sets(self, count: int) -> int:
        return count // MIXED_CYCLE


class SequentialCreate(Workload):
    """Sequential create of nodes with 100 bytes, all connections in one directory."""

    name = "sequential"

    @override
    def stream(self, connection: int) -> Stream:
        prefix = self.root + b"/n-"
        make = numbered(wire.CREATE, [text(prefix) + create_tail(DATA, wire.SEQUENTIAL)])
        return UniqueStream(make, (wire.REPLY_SIZE + 4 + len(prefix) + len(NUMBER % 0),))

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        found = stat(admin, self.root)
        expect("children", found.num_children, sum(counts))
        # Only creates happened, so each moved cversion once: no suffix was left out or given twice.
        expect("cversion", found.cversion, sum(counts))

    @override
    def remains(self, counts: Sequence[int]) -> Iterator[bytes]:
        return (self.root + b"/n-" + NUMBER % i for i in range(sum(counts)))


class Multi(Workload):
    """A multi as ClickHouse commits an insert: a sequential log entry, a block, a part, and a check.

    Log and blocks are shared by all connections, parts and the checked host node are the connection's own.
    """

    name = "multi"

    @override
    def directories(self) -> list[bytes]:
        shared = [self.root + b"/log", self.root + b"/blocks"]
        return shared + [path for replica in self.own_directories() for path in (replica, replica + b"/host")]

    @override
    def stream(self, connection: int) -> Stream:
        log = self.root + b"/log/log-"
        block = self.root + b"/blocks/%04d-" % connection
        part = self.own_directory(connection) + b"/part-"
        digits = len(NUMBER % 0)
        create = wire.MULTI_HEADER.pack(wire.CREATE, False, -1)
        make = numbered(
            wire.MULTI,
            [
                wire.multi_part(wire.CREATE, wire.create_body(log, DATA, wire.SEQUENTIAL))
                + create
                + wire.INT.pack(len(block) + digits)
                + block,
                create_tail(b"") + create + wire.INT.pack(len(part) + digits) + part,
                create_tail(DATA)
                + wire.multi_part(wire.CHECK, wire.check_body(self.own_directory(connection) + b"/host", 0))
                + wire.MULTI_END,
            ],
        )
        header = wire.MULTI_HEADER.size
        created = sum(header + 4 + len(prefix) + digits for prefix in (log, block, part))
        return UniqueStream(make, (wire.REPLY_SIZE + created + header + header,))

    @override
    def verify(self, admin: Asker, counts: Sequence[int]) -> None:
        expect("log entries", stat(admin, self.root + b"/log").num_children, sum(counts))
        expect("blocks", stat(admin, self.root + b"/blocks").num_children, sum(counts))
        for connection, count in enumerate(counts):
            found = stat(admin, self.own_directory(connection)).num_children
            expect(f"parts and host of connection {connection}", found, count + 1)

    @override
    def remains(self, counts: Sequence[int]) -> Iterator[bytes]:
        for i in range(sum(counts)):
            yield self.root + b"/log/log-" + NUMBER % i
        for connection, count in enumerate(counts):
            for i in range(count):
                yield self.root + b"/blocks/%04d-" % connection + NUMBER % i
                yield self.own_directory(connection) + b"/part-" + NUMBER % i


class _Numbered:
    """Makes the i-th request: header, then the pieces with the number in between."""

    _streams = itertools.count()

    def __init__(self, opcode: int, pieces: Sequence[bytes]) -> None:
        self._opcode = opcode
        escaped = (piece.replace(b"%", b"%%") for piece in pieces)
        self._template = NUMBER.join(escaped).replace(DATA, b"%b")
        self._numbers = len(pieces) - 1
        self._data = [piece.count(DATA) for piece in pieces]
        self._first = first_of(next(self._streams))
        digits = len(NUMBER % 0)
        self._length = 8 + sum(map(len, pieces)) + digits * self._numbers

    def __call__(self, i: int) -> bytes:
        header = wire.HEADER.pack(self._length, i + 1, self._opcode)
        return header + self._template % self._values(i)

    def _values(self, i: int) -> tuple[int | bytes, ...]:
        """What fills the template for request `i`: its number and its data, in the order of their places."""
        own = self._first + i
        values: list[int | bytes] = []
        for count_of_data in self._data:
            for _ in range(count_of_data):
                values.append(data(own))
                own += _OTHER_HALF
            values.append(i)
        return tuple(values[:-1])


def numbered(opcode: int, pieces: Sequence[bytes]) -> _Numbered:
    """A maker of requests whose body is `pieces` joined by the request's number, in ten digits.

    DATA in the pieces is replaced by as much data that differ from request to request.
    """
    return _Numbered(opcode, pieces)


def create_tail(data: bytes, flags: int = wire.PERSISTENT) -> bytes:
    """What follows the path in a CreateRequest."""
    return wire.create_body(b"", data, flags)[4:]


WORKLOADS: dict[str, type[Workload]] = {
    workload.name: workload
    for workload in (Get, Exists, GetChildren, Create, SequentialCreate, Set, Delete, Mixed, Multi)
}
