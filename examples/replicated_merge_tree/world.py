"""What all hosts of a run share: settings, names, figures, and the queue of distributed DDL."""

from collections.abc import Sequence
from typing import NamedTuple

from examples.client import Address
from examples.member import Connecting
from examples.meter import Meter
from examples.replicated_merge_tree.ddl_judge import DdlJudge
from examples.steps import Steps


class Settings(NamedTuple):
    """How the hosts behave."""

    connecting: Connecting = Connecting()
    least_to_merge: int = 4
    most_to_merge: int = 10
    old_parts_s: float = 2.0
    """An outdated part stays for so long."""
    pause_s: float = 0.2
    """Between two looks for something to merge or to clean up."""
    changes_s: float = 0.5
    """Between two mutations, drops of a partition, or DDL queries."""
    cleanup_s: float = 5.0
    """Between two clean-ups of the log, the blocks and the queue of DDL."""
    window: int = 1000
    """How many blocks are remembered for deduplication."""
    queue_limit: int = 20
    """A host with more entries in a queue lets its inserts wait."""
    logs_to_keep: int = 50
    """A replica that is away and farther behind the log is lost (ClickHouse: max_replicated_logs_to_keep)."""


class World:
    """One run."""

    def __init__(
        self, addresses: Sequence[Address], root: str, meter: Meter, settings: Settings, seed: int
    ) -> None:
        self.addresses = addresses
        self.tables = f"{root}/clickhouse/tables"
        self.sessions = f"{root}/clickhouse/sessions/zookeeper"
        self.ddl = f"{root}/clickhouse/task_queue/ddl"
        self.meter = meter
        self.settings = settings
        self.seed = seed
        self.steps = Steps()
        self.ddl_judge = DdlJudge()
        self.queries: set[str] = set()
        """All that were ever seen in the queue of DDL."""
        self.names: list[str] = []
        """Of all hosts."""
        self.resting = False
        """Nothing is merged any more."""
        self._identities = 0

    def rest(self) -> None:
        """Merge nothing any more."""
        self.resting = True

    def identity(self) -> str:
        """A new name for an entry, a block or a query."""
        self._identities += 1
        return f"{self.seed}-{self._identities:06d}"
