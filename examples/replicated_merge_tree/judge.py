"""What must hold of the table whatever fails, checked against what the hosts report. Pure.

The hosts live in one process, so the judge sees all of them at one instant, which no host can. Every method
raises Violation with the name of the invariant; INVARIANTS says what each name means.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from examples.invariants import Violation
from examples.replicated_merge_tree.parts import Block, Content, Part, digest

INVARIANTS = {
    "block-number": "No block number is given twice, none is lower than one given before, none is skipped.",
    "content": "A part has the same rows on every replica.",
    "deduplication": "A block is stored once, however often it was inserted.",
    "leaked": "At the end there are no nodes that nobody uses.",
    "leader": "Leaders follow each other in the order of their ephemeral nodes.",
    "lost": "A part is given up only when no replica has its rows any more; `lost_part_count` counts these.",
    "lost-replica": "At the end no replica is lost, and there was always one that was not.",
    "mutation": "A mutation changes every row inserted before it once, and no other row.",
    "parts": "Every replica ends with the same parts, and ZooKeeper lists exactly these.",
    "queue": "A replica copies every entry of the log once, in order.",
    "quorum": "As many replicas have the part as the quorum asks for before the insert is told as done.",
    "rest": "Once nobody writes, every replica does all that is left to do.",
    "rows": "Every row that was told as inserted is there once, unless its partition was dropped later.",
}


class Insert(NamedTuple):
    """An insert that was committed."""

    token: str
    partition: str
    number: int
    rows: int


class Judge:
    """What happened to one table."""

    def __init__(self) -> None:
        self.inserts: dict[tuple[str, int], Insert] = {}  # by (partition, block number)
        self._live: dict[str, Insert] = {}  # by token
        self._forgotten: set[str] = set()
        self._duplicates: list[tuple[str, Part]] = []
        self._highest: dict[str, int] = {}  # partition -> the last block number given
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        self._lost_numbers: Counter[str] = Counter()
        self._dropping: dict[str, tuple[str, int]] = {}  # identity of the entry -> partition, highest number
        self._dropped: dict[str, int] = {}
        self._mutations: defaultdict[str, set[int]] = defaultdict(set)
        self._digests: dict[Part, tuple[str, str]] = {}
        self._pointers: dict[str, int] = {}
        self._last_leader = -1
        self._lost: defaultdict[str, set[int]] = defaultdict(set)  # partition -> block numbers given up
        self.parts_lost = 0

    # Block numbers

    def floor(self, partition: str) -> int:
        """A number that is asked for now must be higher than this one."""
        return self._highest.get(partition, -1)

    def number_given(self, partition: str, number: int, floor: int) -> None:
        """A host got a block number. `floor`: from before it asked."""
        if number <= floor or number in self._numbers[partition]:
            raise Violation("block-number", f"{partition}: {number} was given after {max(floor, number)}")
        self._numbers[partition].add(number)
        self._highest[partition] = max(number, self._highest.get(partition, -1))

    def number_unknown(self, partition: str) -> None:
        """A host asked for a number, and its connection was lost before the answer came."""
        self._lost_numbers[partition] += 1

    def counter_is(self, partition: str, next_number: int) -> None:
        """At the end: the number that the next insert would get."""
        known = self._numbers[partition]
        if known and max(known) >= next_number:
            raise Violation("block-number", f"{partition}: {max(known)} was given, {next_number} comes next")
        missing = next_number - len(known)
        if missing > self._lost_numbers[partition]:
            raise Violation(
                "block-number",
                f"{partition}: {missing} of {next_number} numbers were given to nobody;"
                f" {self._lost_numbers[partition]} answers were lost",
            )

    # Inserts

    def committed(self, insert: Insert) -> None:
        """An insert is in the log, with the answer or found out later."""
        before = self._live.get(insert.token)
        if before is not None and not any(
            partition == before.partition and before.number <= high
            for partition, high in self._dropping.values()
        ):
            raise Violation(
                "deduplication",
                f"block {insert.token} is stored as number {before.number} and as number {insert.number}"
                f" of partition {insert.partition}",
            )
        self._live[insert.token] = insert
        self.inserts[insert.partition, insert.number] = insert

    def duplicate(self, token: str, stored: Part) -> None:
        """An insert was told that its block is in this part already."""
        self._duplicates.append((token, stored))

    def quorum_told(self, part: Part, holders: Collection[str], quorum: int) -> None:
        """An insert with a quorum is told as done. `holders`: replicas that have had the part."""
        if len(holders) < quorum:
            raise Violation("quorum", f"{part.text} is on {sorted(holders)}, the quorum is {quorum}")

    # Other changes of the table

    def dropping(self, identity: str, partition: str, high: int) -> None:
        """A host is about to drop a partition up to this block number."""
        self._dropping[identity] = (partition, high)

    def dropped(self, identity: str) -> None:
        """It is done."""
        partition, high = self._dropping[identity]
        self._dropped[partition] = max(high, self._dropped.get(partition, -1))

    def forgotten(self, tokens: Iterable[str]) -> None:
        """The clean-up is about to forget these blocks: they may be inserted again."""
        for token in tokens:
            self._live.pop(token, None)
            self._forgotten.add(token)

    def mutation(self, numbers: Mapping[str, int]) -> None:
        """A mutation was registered: partition -> its block number there."""
        for partition, number in numbers.items():
            self._mutations[partition].add(number)

    def part_made(self, replica: str, part: Part, content: Content) -> None:
        """A replica inserted, fetched, merged or mutated a part."""
        found = digest(content)
        known, other = self._digests.setdefault(part, (found, replica))
        if known != found:
            raise Violation("content", f"{part.text} differs between {other} and {replica}")

    def given_up(self, replica: str, part: Part, holders: Collection[str]) -> None:
        """A replica made an empty part in place of one. `holders`: replicas whose disks have rows of it."""
        if holders:
            raise Violation("lost", f"{replica} gave {part.text} up, {sorted(holders)} have rows of it")
        self._lost[part.partition].update(range(part.low, part.high + 1))
        self.parts_lost += 1
        # From here on all names that stand for these rows stand for what is made without them.
        self._digests = {other: made for other, made in self._digests.items() if not other.overlaps(part)}

    # Queues and leaders

    def copied(self, replica: str, pointer: int, indexes: Iterable[int]) -> None:
        """A replica copied entries of the log with these numbers, beginning at its pointer in ZooKeeper."""
        expected = self._pointers.get(replica, 0)
        if pointer != expected:
            raise Violation("queue", f"{replica} goes on at entry {pointer}, not at {expected}")
        for index in indexes:
            if index != expected:
                raise Violation("queue", f"{replica} copied entry {index}, not {expected}")
            expected += 1
        self._pointers[replica] = expected

    def cloned(self, replica: str, pointer: int) -> None:
        """A lost replica took over another one's queue, and goes on in the log behind it."""
        self._pointers[replica] = pointer

    def queue_read(self, replica: str, held: Iterable[str], stored: Iterable[str]) -> None:
        """A new session read its queue: the identities of the entries that it holds, and of those stored."""
        left, right = list(held), list(stored)
        if left != right:
            raise Violation("queue", f"{replica} holds {left}, ZooKeeper {right}")

    def leader(self, replica: str, number: int) -> None:
        """A replica became the leader with the ephemeral node of this number."""
        if number <= self._last_leader:
            raise Violation("leader", f"{replica} leads with {number} after {self._last_leader}")
        self._last_leader = number

    # The end

    def expected(self) -> dict[str, Content]:
        """What a replica must have in the end: partition -> content."""
        found: dict[str, Content] = defaultdict(dict)
        for (partition, number), insert in self.inserts.items():
            if number > self._dropped.get(partition, -1) and number not in self._lost[partition]:
                mutations = tuple(sorted(n for n in self._mutations[partition] if n > number))
                found[partition][number] = Block(insert.token, insert.rows, mutations)
        return found

    def at_end(
        self, replicas: Mapping[str, Mapping[Part, Content]], listed: Mapping[str, Collection[Part]]
    ) -> None:
        """All is done. `replicas`: what each has; `listed`: the parts of each in ZooKeeper."""
        for token, part in self._duplicates:
            insert = self.inserts.get((part.partition, part.low))
            if insert is None or insert.token != token:
                raise Violation("deduplication", f"block {token} is said to be in {part.text}: it is not")
        expected = self.expected()
        stored = Counter(block.token for content in expected.values() for block in content.values())
        for token, times in stored.items():
            if times > 1 and token not in self._forgotten:
                raise Violation("deduplication", f"block {token} is stored {times} times")
        for replica, parts in replicas.items():
            self._rows(replica, parts, expected)
        first = next(iter(replicas))
        for replica, parts in replicas.items():
            for name, others in ((first, set(replicas[first])), ("ZooKeeper", set(listed[replica]))):
                if differing := sorted(part.text for part in others.symmetric_difference(parts)):
                    raise Violation("parts", f"{replica} and {name} differ by {differing}")

    def blocks_at_end(self, tokens: Iterable[str]) -> None:
        """The blocks that ZooKeeper remembers at the end."""
        remembered = set(tokens)
        live = {block.token for content in self.expected().values() for block in content.values()}
        given_up = {
            insert.token for insert in self.inserts.values() if insert.number in self._lost[insert.partition]
        }
        if lost := sorted(live - remembered - self._forgotten):
            raise Violation("deduplication", f"the blocks {lost} are stored and not remembered")
        if extra := sorted(remembered - live - given_up):
            raise Violation("deduplication", f"the blocks {extra} are remembered and not stored")

    def lost_parts_at_end(self, count: int) -> None:
        """The table's `lost_part_count` at the end."""
        if count != self.parts_lost:
            raise Violation("lost", f"{self.parts_lost} parts were given up, ZooKeeper counts {count}")

    def nodes_at_end(self, unknown: Collection[str]) -> None:
        """The nodes below the table's at the end that nothing explains."""
        if unknown:
            raise Violation("leaked", f"nobody uses {sorted(unknown)}")

    def _rows(self, replica: str, parts: Mapping[Part, Content], expected: Mapping[str, Content]) -> None:
        found: dict[str, Content] = defaultdict(dict)
        for part, content in parts.items():
            for number, block in content.items():
                if number in found[part.partition]:
                    raise Violation("rows", f"{replica} has block {number} of {part.partition} twice")
                found[part.partition][number] = block
        for partition in {*found, *expected}:
            ours, theirs = found.get(partition, {}), expected.get(partition, {})
            if missing := sorted(theirs.keys() - ours.keys()):
                raise Violation("rows", f"{replica} has lost the blocks {missing} of {partition}")
            if foreign := sorted(ours.keys() - theirs.keys()):
                raise Violation(
                    "rows", f"{replica} has the blocks {foreign} of {partition}; they must not be there"
                )
            for number, block in ours.items():
                wanted = theirs[number]
                if block.mutations != wanted.mutations:
                    raise Violation(
                        "mutation",
                        f"{replica}: block {number} of {partition} has the mutations {block.mutations},"
                        f" not {wanted.mutations}",
                    )
                if block != wanted:
                    raise Violation(
                        "rows", f"{replica} has {block} as number {number} of {partition}, not {wanted}"
                    )
