"""`python -m pipeline COMMAND`: the commands of the data pipeline.

Exit codes: 0 done, 1 a difference or a failure, 2 wrong usage, 130 interrupted.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from types import ModuleType

from pyspark.errors import PySparkException

from pipeline.etcd.read import NotReadable
from pipeline.etcd.requests import LoadRefused
from pipeline.formats.errors import BadFile
from pipeline.jobs import export, import_, inspect, verify
from pipeline.jobs.failure import Failure, Usage, reason_of
from pipeline.live.admin import NoSnapshot
from pipeline.live.walk import WalkFailed
from proxy.etcd.model import EtcdError
from proxy.support.stdout import guarded
from schema.errors import BadValue

#: A module a command: SUMMARY, add_arguments(parser), run(arguments) -> exit code.
COMMANDS: dict[str, ModuleType] = {
    "import": import_,
    "export": export,
    "verify": verify,
    "inspect": inspect,
}

_INTERRUPTED = 128 + signal.SIGINT  # as a shell has it
_EXPECTED = (
    BadFile,
    BadValue,
    EtcdError,
    Failure,
    LoadRefused,
    NoSnapshot,
    NotReadable,
    OSError,
    PySparkException,
    WalkFailed,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Wrong usage exits with 2."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline",
        description="Copy a tree of ZooKeeper into etcd and back, and compare the copies.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.SUMMARY, allow_abbrev=False
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    given = parser.parse_args(arguments)
    try:
        return int(given.run(given))
    except (Usage, ValueError) as error:
        print(f"python -m pipeline: {error}", file=sys.stderr)
        return 2
    except _EXPECTED as error:
        print(f"python -m pipeline: {reason_of(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("python -m pipeline: interrupted; what was begun can be run again", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(guarded(main, "python -m pipeline"))
