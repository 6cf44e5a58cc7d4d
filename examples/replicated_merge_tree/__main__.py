"""`python -m examples.replicated_merge_tree`: the command's options."""

import argparse
import sys

from examples.member import Connecting
from examples.program import Findings, Surroundings, Workload, count, main, seconds
from examples.replicated_merge_tree.host import Settings
from examples.replicated_merge_tree.run import run


def _add_options(parser: argparse.ArgumentParser) -> None:
    defaults = Settings()
    parser.add_argument("--hosts", type=count, default=4, help="simulated servers (default: %(default)s)")
    parser.add_argument(
        "--writers", type=count, default=2, help="inserts at a time on each host (default: %(default)s)"
    )
    parser.add_argument(
        "--session-timeout",
        type=seconds,
        default=defaults.connecting.session_timeout_ms / 1000,
        help="of each host's session, in seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--change-every",
        type=seconds,
        default=defaults.changes_s,
        metavar="SECONDS",
        help="time between two of these: mutation, DROP PARTITION, query on all hosts (default: %(default)g)",
    )
    parser.add_argument(
        "--window",
        type=count,
        default=defaults.window,
        help="blocks that are remembered for deduplication (default: %(default)s)",
    )


async def _run(surroundings: Surroundings, options: argparse.Namespace) -> Findings:
    connecting = Connecting(session_timeout_ms=round(options.session_timeout * 1000))
    settings = Settings(connecting, changes_s=options.change_every, window=options.window)
    return await run(
        surroundings,
        hosts=options.hosts,
        writers=options.writers,
        seconds=options.seconds,
        seed=options.seed,
        settings=settings,
    )


WORKLOAD = Workload(
    "replicated_merge_tree",
    "ClickHouse's replicated tables and distributed DDL, with every row checked.",
    "insert",
    "inserts",
    _add_options,
    _run,
)

if __name__ == "__main__":
    sys.exit(main(WORKLOAD))
