"""Nodes of a table with zero-copy replication, and the entries of its log. Pure."""

from typing import NamedTuple, Self


class ZeroCopyPaths:
    """`<table>/zero_copy_s3` and the other nodes of this program."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.log = f"{root}/log"
        self.hosts = f"{root}/hosts"
        self.zero_copy = f"{root}/zero_copy_s3"
        self.shared = f"{root}/zero_copy_s3/shared"
        self.merged = f"{root}/zero_copy_s3/merged"
        self.moved = f"{root}/zero_copy_s3/moved"
        self.deleting = f"{root}/zero_copy_s3/deleting"

    def every(self) -> list[str]:
        """The nodes that a new table has, parents first."""
        above = [self.root, self.log, self.hosts, self.zero_copy]
        return [*above, self.shared, self.merged, self.moved, self.deleting]

    def host(self, name: str) -> str:
        """A host's own node."""
        return f"{self.hosts}/{name}"

    def part(self, part: str) -> str:
        """All data of a part: one child, if all replicas use one bucket."""
        return f"{self.shared}/{part}"

    def data(self, part: str, identity: str) -> str:
        """The data may be used as long as this node is there."""
        return f"{self.shared}/{part}/{identity}"

    def directory(self, part: str, identity: str, directory: str = "") -> str:
        """The node above the marks of the replicas that have this directory, by default the final one."""
        return f"{self.shared}/{part}/{identity}/{directory or part}"

    def mark(self, part: str, identity: str, replica: str, directory: str = "") -> str:
        """A replica's mark, of the part or of a fetch into a temporary directory."""
        return f"{self.directory(part, identity, directory)}/{replica}"

    def lock(self, how: str, part: str) -> str:
        """Held by the replica that merges a part or moves it: `how` is `merged` or `moved`."""
        return f"{self.zero_copy}/{how}/{part}"

    def deletion(self, identity: str) -> str:
        """Names the replica that deletes the data."""
        return f"{self.deleting}/{identity}"


class Change(NamedTuple):
    """An entry of the log."""

    added: str  # a part, "" for none
    removed: tuple[str, ...]  # parts that the added one replaces, or that are dropped

    def encode(self) -> bytes:
        """The znode's data."""
        return " ".join([self.added, *self.removed]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """What `encode` wrote."""
        added, *removed = data.decode().split(" ")
        return cls(added, tuple(removed))
