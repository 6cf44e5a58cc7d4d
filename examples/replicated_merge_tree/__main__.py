"""`python -m examples.replicated_merge_tree`: the command's options."""

import argparse
from collections.abc import Callable

from examples import runner
from examples.program import Findings, Surroundings, Workload, run_command
from examples.replicated_merge_tree.run import Shape, run
from examples.world import Connecting
from lab.arguments import count, rate, seconds, size


def _add_options(parser: argparse.ArgumentParser) -> None:
    shape = Shape()
    runner.add_options(parser, Connecting().session_timeout_ms / 1000)

    def add(name: str, type_: Callable[[str], object], default: float, text: str) -> None:
        parser.add_argument(name, type=type_, default=default, help=f"{text} (default: %(default)g)")

    add("--replicas", size, shape.replicas, "hosts that share a table's data, a shard; 0: all")
    add("--tables", count, shape.tables, "tables of each shard, and so of each host")
    add("--writers", count, shape.writers, "inserts at a time on each host")
    add("--rate", rate, shape.rate, "inserts a second of all hosts together; 0: as many as they can")
    add("--query-every", seconds, shape.query_every, "seconds between two queries on all hosts")


async def _run(surroundings: Surroundings, options: argparse.Namespace) -> Findings:
    shape = Shape(**{name: getattr(options, name) for name in Shape._fields})
    return await run(surroundings, shape, runner.connecting(options), options.seed)


WORKLOAD = Workload(
    "replicated_merge_tree",
    "Inserts into ClickHouse's replicated tables and distributed DDL, with every row checked.",
    "insert",
    "inserts",
    _add_options,
    _run,
)

if __name__ == "__main__":
    run_command(WORKLOAD)
