"""Where ClickHouse keeps what in ZooKeeper. Pure.

One class for each subtree, with ClickHouse's own names.
"""

from collections.abc import Iterable


class TablePaths:
    """A replicated table: StorageReplicatedMergeTree's `zookeeper_path`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.log = f"{root}/log"
        self.blocks = f"{root}/blocks"
        self.block_numbers = f"{root}/block_numbers"
        self.mutations = f"{root}/mutations"
        self.quorum = f"{root}/quorum"
        self.quorum_status = f"{root}/quorum/status"
        self.quorum_last = f"{root}/quorum/last_part"
        self.leader_election = f"{root}/leader_election"
        self.failed_parts = f"{root}/quorum/failed_parts"
        self.lost_part_count = f"{root}/lost_part_count"
        self.replicas = f"{root}/replicas"

    def every(self) -> list[str]:
        """The nodes that a new table has, parents first."""
        return [
            self.root,
            f"{self.root}/metadata",
            f"{self.root}/columns",
            self.log,
            self.blocks,
            self.block_numbers,
            f"{self.root}/nonincrement_block_numbers",
            self.mutations,
            self.quorum,
            self.quorum_last,
            self.failed_parts,
            f"{self.quorum}/parallel",
            self.leader_election,
            f"{self.root}/temp",
            self.lost_part_count,
            self.replicas,
        ]

    def unknown(self, paths: Iterable[str], replicas: Iterable[str]) -> list[str]:
        """Those of the paths that a table at rest with these replicas does not have."""
        own = [self.replica(name) for name in replicas]
        nodes = {*self.every(), *(path for each in own for path in [*each.every(), each.is_active])}
        lists = {self.log, self.blocks, self.mutations, self.failed_parts, self.leader_election}
        lists |= {self.block_numbers, *(each.parts for each in own)}
        return [path for path in paths if path not in nodes and path.rpartition("/")[0] not in lists]

    def block(self, block_id: str) -> str:
        """The node that says that a block is stored."""
        return f"{self.blocks}/{block_id}"

    def numbers(self, partition: str) -> str:
        """The parent of a partition's block numbers."""
        return f"{self.block_numbers}/{partition}"

    def replica(self, name: str) -> "ReplicaPaths":
        """A replica's nodes."""
        return ReplicaPaths(f"{self.replicas}/{name}")


class ReplicaPaths:
    """One replica of a table: `replica_path`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.host = f"{root}/host"
        self.is_active = f"{root}/is_active"
        self.is_lost = f"{root}/is_lost"
        self.log_pointer = f"{root}/log_pointer"
        self.queue = f"{root}/queue"
        self.parts = f"{root}/parts"

    def every(self, *, lost: bool = False) -> dict[str, bytes]:
        """The nodes that a new replica has, and their data, parents first.

        `lost`: as ClickHouse says of a replica that has to be cloned from another one.
        """
        return {
            self.root: b"",
            self.host: b"",
            self.log_pointer: b"0",
            self.queue: b"",
            self.parts: b"",
            f"{self.root}/flags": b"",
            f"{self.root}/metadata": b"",
            f"{self.root}/columns": b"",
            self.is_lost: b"1" if lost else b"0",
            f"{self.root}/mutation_pointer": b"",
            f"{self.root}/min_unprocessed_insert_time": b"",
            f"{self.root}/max_processed_insert_time": b"",
        }

    def part(self, name: str) -> str:
        """A part's node."""
        return f"{self.parts}/{name}"


class QueryPaths:
    """One query in the queue of distributed DDL."""

    def __init__(self, queue: str, name: str) -> None:
        self.root = f"{queue}/{name}"
        self.active = f"{self.root}/active"
        self.finished = f"{self.root}/finished"
        self.lock = f"{self.root}/lock"


def sequence_number(path: str) -> int:
    """The number at the end of a sequential node's name. Raises ValueError."""
    return int(path[-10:])
