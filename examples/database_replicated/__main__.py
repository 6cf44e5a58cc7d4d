"""`python -m examples.database_replicated HOST:PORT`."""

from examples.database_replicated.run import add_options, run
from examples.program import Workload, run_command

WORKLOAD = Workload(
    "database_replicated",
    "ClickHouse's DatabaseReplicated: replicas propose DDL under a lock, apply the log, clean it,"
    " and recover from the snapshot after losses.",
    "DDL entry",
    "DDL entries",
    add_options,
    run,
)

if __name__ == "__main__":
    run_command(WORKLOAD)
