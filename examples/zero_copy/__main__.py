"""`python -m examples.zero_copy`: the command's options."""

import argparse

from examples import runner
from examples.program import Findings, Surroundings, Workload, run_command
from examples.world import Connecting
from examples.zero_copy.host import Settings
from examples.zero_copy.run import run
from lab.arguments import count, rate


def _add_options(parser: argparse.ArgumentParser) -> None:
    runner.add_options(parser, Connecting().session_timeout_ms / 1000)
    parser.add_argument(
        "--rate", type=rate, default=0.0, help="inserts a second of all hosts; 0: all they can (default)"
    )
    parser.add_argument(
        "--hybrid", action="store_true", help="insert on local disks; every host moves its parts to S3 later"
    )
    parser.add_argument(
        "--buckets", type=count, default=1, help="the hosts take turns to use them (default: %(default)s)"
    )


async def _run(surroundings: Surroundings, options: argparse.Namespace) -> Findings:
    return await run(
        surroundings,
        hosts=options.hosts,
        rate=options.rate,
        seconds=options.seconds,
        seed=options.seed,
        settings=Settings(runner.connecting(options), hybrid=options.hybrid, buckets=options.buckets),
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
    run_command(WORKLOAD)
