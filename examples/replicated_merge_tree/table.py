"""Where ClickHouse keeps what in ZooKeeper, and what must hold of it whatever fails. Pure.

The hosts live in one process, so the judge sees all of them at one instant, which no host can. Its methods
raise Violation with the name of the invariant; INVARIANTS says what each name means.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Self

from examples.invariants import Violation

INVARIANTS = {
    "block-number": "No block number is given twice, none is lower than one given before, none is skipped.",
    "ddl-finished": "A DDL query that was reported as done is finished on every host.",
    "ddl-once": "Every host executes every DDL query once, in the order of the queue.",
    "deduplication": "A block is stored once, however often it was inserted.",
    "leaked": "At the end there are no nodes that nobody uses.",
    "parts": "ZooKeeper lists for every replica exactly the parts that it has.",
    "queue": "A replica copies every entry of the log once, in order, and finds its queue again.",
    "rest": "Once nobody writes, every replica does all that is left to do.",
    "rows": "Every row that was reported as inserted is on every replica once, and no other row is.",
}

PARTITIONS = ("202401", "202402", "202403")


class TablePaths:
    """A replicated table: StorageReplicatedMergeTree's `zookeeper_path`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.log = f"{root}/log"
        self.blocks = f"{root}/blocks"
        self.block_numbers = f"{root}/block_numbers"
        self.replicas = f"{root}/replicas"

    def nodes(self, replicas: Iterable[str]) -> dict[str, bytes]:
        """The nodes that a new table has, with their data, parents first."""
        nodes = dict.fromkeys((self.root, self.log, self.blocks, self.block_numbers, self.replicas), b"")
        nodes |= {f"{self.block_numbers}/{partition}": b"" for partition in PARTITIONS}
        for name in replicas:
            nodes[f"{self.replicas}/{name}"] = b""
            for child in ("host", "queue", "parts"):
                nodes[f"{self.replicas}/{name}/{child}"] = b""
            nodes[f"{self.replicas}/{name}/log_pointer"] = b"0"
        return nodes


class Entry(NamedTuple):
    """An entry of the log, and of the replicas' queues: a part that every replica is to fetch."""

    part: str
    source: str
    """The replica that has inserted it."""
    block_id: str

    def encode(self) -> bytes:
        """The znode's data, as ClickHouse writes it."""
        return (
            f"format version: 4\nsource replica: {self.source}\nblock_id: {self.block_id}\nget\n{self.part}"
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError for anything that `encode` does not write."""
        _, source, block_id, _, part = data.decode().split("\n")
        return cls(part, source.partition(": ")[2], block_id.partition(": ")[2])


def part_of(partition: str, number: int) -> str:
    """The part that an insert with this block number makes."""
    return f"{partition}_{number}_{number}_0"


def sequence_number(path: str) -> int:
    """The number at the end of a sequential node's name. Raises ValueError."""
    return int(path[-10:])


class Judge:
    """What happened to one table."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        """Every part that was inserted -> the block that it holds."""
        self._duplicates: list[tuple[str, str]] = []
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        self._lost_numbers: Counter[str] = Counter()
        self._pointers: Counter[str] = Counter()

    def floor(self, partition: str) -> int:
        """A number that is asked for now must be higher than this one."""
        return max(self._numbers[partition], default=-1)

    def number_given(self, partition: str, number: int, floor: int) -> None:
        """A host got a block number. `floor`: from before it asked."""
        if number <= floor or number in self._numbers[partition]:
            raise Violation("block-number", f"{partition}: {number} was given after {max(floor, number)}")
        self._numbers[partition].add(number)

    def number_unknown(self, partition: str) -> None:
        """A host asked for a number, and its connection was lost before the answer came."""
        self._lost_numbers[partition] += 1

    def counter_is(self, partition: str, next_number: int) -> None:
        """At the end: the number that the next insert would get."""
        if self.floor(partition) >= next_number:
            raise Violation(
                "block-number", f"{partition}: {self.floor(partition)} was given, {next_number} comes next"
            )
        missing = next_number - len(self._numbers[partition])
        if missing > self._lost_numbers[partition]:
            raise Violation(
                "block-number",
                f"{partition}: {missing} of {next_number} numbers were given to no insert;"
                f" {self._lost_numbers[partition]} answers were lost",
            )

    def inserted(self, part: str, block_id: str) -> None:
        """An insert is in the log, with the answer or found out later."""
        if block_id in self.parts.values():
            raise Violation("deduplication", f"block {block_id} is stored again, as {part}")
        self.parts[part] = block_id

    def duplicate(self, block_id: str, part: str) -> None:
        """An insert was answered that its block is in this part already."""
        self._duplicates.append((block_id, part))

    def copied(self, replica: str, pointer: int, indexes: Iterable[int]) -> None:
        """A replica copied entries of the log with these numbers, beginning at its pointer in ZooKeeper."""
        expected = self._pointers[replica]
        if pointer != expected:
            raise Violation("queue", f"{replica} continues at entry {pointer}, not at {expected}")
        for index in indexes:
            if index != expected:
                raise Violation("queue", f"{replica} copied entry {index}, not {expected}")
            expected += 1
        self._pointers[replica] = expected

    def queue_found(self, replica: str, held: Collection[str], found: Collection[str]) -> None:
        """A new session read its queue: the parts that it has to fetch, and those that ZooKeeper lists."""
        if differing := set(held).symmetric_difference(found):
            raise Violation("queue", f"{replica} and its queue differ by {sorted(differing)}")

    def parts_found(self, replica: str, held: Collection[str], listed: Collection[str]) -> None:
        """The parts of a replica, and those that ZooKeeper lists for it."""
        if differing := set(held).symmetric_difference(listed):
            raise Violation("parts", f"{replica} and ZooKeeper differ by {sorted(differing)}")

    def at_end(self, replicas: Mapping[str, Mapping[str, str]], blocks: Mapping[str, str]) -> None:
        """All is done. `replicas`: part -> block of each; `blocks`: those in ZooKeeper -> part."""
        for block_id, part in self._duplicates:
            if self.parts.get(part) != block_id:
                raise Violation("deduplication", f"block {block_id} is said to be in {part}: it is not")
        if blocks != {block_id: part for part, block_id in self.parts.items()}:
            raise Violation("deduplication", f"ZooKeeper remembers {blocks}, stored are {self.parts}")
        for replica, parts in replicas.items():
            if differing := sorted(parts.items() ^ self.parts.items()):
                raise Violation("rows", f"{replica} has not what was inserted; they differ by {differing}")


class DdlJudge:
    """What happened to the queue of distributed DDL."""

    def __init__(self) -> None:
        self._executed: defaultdict[str, list[str]] = defaultdict(list)

    def executed(self, host: str, query: str) -> None:
        """A host executed a query of the queue."""
        done = self._executed[host]
        if done and query <= done[-1]:
            raise Violation("ddl-once", f"{host} executes {query} after {done[-1]}")
        done.append(query)

    def reported(self, query: str, hosts: Collection[str], finished: Collection[str]) -> None:
        """A query is reported as done. `finished`: the hosts that ZooKeeper lists."""
        for host in hosts:
            if host not in finished or query not in self._executed[host]:
                raise Violation("ddl-finished", f"{query} is reported as done; {host} has not executed it")

    def at_end(self, queries: Collection[str], hosts: Iterable[str]) -> None:
        """At the end: all queries in the queue."""
        for host in hosts:
            if wrong := sorted(set(queries).symmetric_difference(self._executed[host])):
                raise Violation("ddl-once", f"{host} and the queue differ by {wrong}")


def leaked(nodes: Collection[str]) -> None:
    """At the end: nodes below those that must be empty by then."""
    if nodes:
        raise Violation("leaked", f"no replica uses {sorted(nodes)}")
