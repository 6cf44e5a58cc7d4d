"""The commands of the data pipeline.

Exit codes: 0 done; 1 the trees differ, or the tree cannot be moved as it is; 2 wrong usage, or a source or
target that cannot be read, reached or written; 130 interrupted.

Only the chosen command's module is imported: to read a small tree takes less time than to import Spark, or
even all of our own modules.
"""

import argparse
import contextlib
import importlib
import signal
from collections.abc import Sequence
from typing import Any

from cli.connection import add_tree, configured_parser
from cli.output import say
from pipeline.arrow import leave_pandas_out
from pipeline.errors import MissingPackage
from pipeline.jobs.failure import is_expected, reason_of
from pipeline.options import ADD_ARGUMENTS, OF_ONE_TREE
from proxy.support.libraries import how_to_add
from proxy.support.stdout import has_failed

_INTERRUPTED = 128 + signal.SIGINT  # as shells report it
_FAILED = 2
_PACKAGES = ("numpy", "pyarrow")
_WITHOUT_ARROW = ("follow", "lost")


def main(arguments: Sequence[str], command: str) -> int:
    """Run one command; returns the exit code. argparse itself exits with 2 for wrong usage."""
    program = f"zketcd {command}"
    try:
        return _run(command, parser(command).parse_args(arguments))
    except KeyboardInterrupt:
        say(f"{program}: interrupted; what was begun can be run again")
        return _INTERRUPTED
    except Exception as error:
        if not is_expected(error) or (isinstance(error, OSError) and has_failed()):
            raise
        with contextlib.suppress(OSError):  # stderr is a file on a full disk
            say(f"{program}: {reason_of(error)}")
        return _FAILED


def parser(command: str) -> Any:
    """The parser of a command."""
    made = configured_parser(command)
    if command in OF_ONE_TREE:
        add_tree(made.add_argument, otherwise="none")
    shared = {each.dest for each in made._actions}
    ADD_ARGUMENTS[command](made)
    made.own = {each.dest for each in made._actions} - shared
    return made


def _run(command: str, given: argparse.Namespace) -> int:
    """Import a command's module, and run it. Raises MissingPackage."""
    # The packages of zketcd have no Arrow: these need none, except to follow the files of a ZooKeeper.
    is_traffic = command == "inspect" and given.traffic
    try:
        if not is_traffic and command not in _WITHOUT_ARROW:
            leave_pandas_out()
        job = "traffic" if is_traffic else "import_" if command == "import" else command
        program = importlib.import_module(f"pipeline.jobs.{job}")
        return int(program.run(given))
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise MissingPackage(f"{error.name} is not installed: {how_to_add('pipeline-small')}") from error
