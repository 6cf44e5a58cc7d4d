"""`python -m examples.zero_copy`: the command's options."""

import argparse
import sys

from examples.member import Connecting
from examples.program import Findings, Surroundings, Workload, count, main, seconds
from examples.zero_copy.host import Settings
from examples.zero_copy.run import run


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=count, default=4, help="simulated servers (default: %(default)s)")
    parser.add_argument(
        "--session-timeout",
        type=seconds,
        default=Connecting().session_timeout_ms / 1000,
        help="of each host's session, in seconds (default: %(default)g)",
    )


async def _run(surroundings: Surroundings, options: argparse.Namespace) -> Findings:
    return await run(
        surroundings,
        hosts=options.hosts,
        seconds=options.seconds,
        seed=options.seed,
        settings=Settings(Connecting(session_timeout_ms=round(options.session_timeout * 1000))),
    )


WORKLOAD = Workload(
    "zero_copy",
    "ClickHouse's S3 zero-copy replication: marks and locks of shared parts, with every deletion checked.",
    "insert",
    "inserts",
    _add_options,
    _run,
)

if __name__ == "__main__":
    sys.exit(main(WORKLOAD))
