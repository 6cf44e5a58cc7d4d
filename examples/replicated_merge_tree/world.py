"""What all hosts of a run share: settings, names, figures, and the queue of distributed DDL."""

from typing import NamedTuple

from examples import world
from examples.program import Surroundings
from examples.replicated_merge_tree.ddl_judge import DdlJudge
from examples.world import Connecting


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
    quorum_inserts: float = 0.05
    """The share of inserts that wait for a quorum, while all hosts are up."""


class World(world.World):
    """One run."""

    def __init__(self, surroundings: Surroundings, settings: Settings, seed: int) -> None:
        super().__init__(
            surroundings.addresses, surroundings.meter, settings.connecting, settings.pause_s, seed
        )
        clickhouse = f"{surroundings.root}/clickhouse"
        self.tables = f"{clickhouse}/tables"
        self.sessions = f"{clickhouse}/sessions/zookeeper"
        self.ddl = f"{clickhouse}/task_queue/ddl"
        self.settings = settings
        self.ddl_judge = DdlJudge()
        self.queries: set[str] = set()
        """All that were ever seen in the queue of DDL."""
        self.names: list[str] = []
        """Of all hosts."""
