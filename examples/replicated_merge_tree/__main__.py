"""`python -m examples.replicated_merge_tree`: the command's options."""

import argparse
from collections.abc import Callable

from examples import runner
from examples.program import Findings, Surroundings, Workload, run_command
from examples.replicated_merge_tree.run import Shape, run
from examples.replicated_merge_tree.world import Settings
from lab.arguments import count, rate, seconds, size


def _add_options(parser: argparse.ArgumentParser) -> None:
    defaults, shape = Settings(), Shape()
    runner.add_options(parser, defaults.connecting.session_timeout_ms / 1000)

    def add(name: str, type_: Callable[[str], object], default: float, text: str) -> None:
        parser.add_argument(name, type=type_, default=default, help=f"{text} (default: %(default)g)")

    add("--replicas", size, shape.replicas, "hosts that share a table's data, a shard; 0: all")
    add("--tables", count, shape.tables, "tables of each shard, and so of each host")
    add("--writers", count, shape.writers, "inserts at a time on each host")
    add("--rate", rate, shape.rate, "inserts a second of all hosts together; 0: as many as they can")
    add("--losses", size, shape.losses, "parts and hosts to lose after the timed part")
    add("--change-every", seconds, defaults.changes_s, "seconds between two mutations, drops or DDL queries")
    add("--window", count, defaults.window, "blocks that are remembered for deduplication")
    add("--logs-to-keep", count, defaults.logs_to_keep, "entries behind which a replica that is away is lost")


async def _run(surroundings: Surroundings, options: argparse.Namespace) -> Findings:
    names = ("hosts", "replicas", "tables", "writers", "rate", "seconds", "losses")
    settings = Settings(
        runner.connecting(options),
        changes_s=options.change_every,
        window=options.window,
        logs_to_keep=options.logs_to_keep,
    )
    shape = Shape(**{name: getattr(options, name) for name in names})
    return await run(surroundings, shape, settings, options.seed)


WORKLOAD = Workload(
    "replicated_merge_tree",
    "ClickHouse's replicated tables and distributed DDL, with every row checked.",
    "insert",
    "inserts",
    _add_options,
    _run,
)

if __name__ == "__main__":
    run_command(WORKLOAD)
