"""`python -m pipeline COMMAND`: the commands of the data pipeline.

Exit codes: 0 done; 1 the trees differ, or the tree cannot be moved as it is; 2 wrong usage, or a source or
target that cannot be read, reached or written; 130 interrupted.

Only the chosen command's module is imported: to read a small tree takes less time than to import Spark, or
even all of our own modules.
"""

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Sequence
from types import ModuleType

from pipeline import stand_ins
from pipeline.arrow import leave_pandas_out
from pipeline.commands import COMMANDS
from pipeline.errors import MissingPackage
from pipeline.jobs.failure import is_expected, reason_of
from proxy.support.libraries import how_to_add
from proxy.support.stdout import guarded, has_failed
from proxy.support.usage import Parser

_INTERRUPTED = 128 + signal.SIGINT  # as shells report it
_FAILED = 2
_PACKAGES = ("numpy", "pyarrow", "pandas")
_HELP = {"-h", "--help"}


def main(arguments: Sequence[str] | None = None, command: str = "") -> int:
    """Run one command; returns the exit code. argparse itself exits with 2 for wrong usage.

    With `command` the arguments are those of `zketcd COMMAND`.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    program = f"zketcd {command}" if command else "python -m pipeline"
    if _HELP & set(words):
        stand_ins.install(_PACKAGES)
    try:
        made = parser(command) if command else _parser(words)
        given = made.parse_args(words)
        return int(given.run(given))
    except KeyboardInterrupt:
        print(f"{program}: interrupted; what was begun can be run again", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        if not is_expected(error) or (isinstance(error, OSError) and has_failed()):
            raise
        with contextlib.suppress(OSError):  # stderr is a file on a full disk
            print(f"{program}: {reason_of(error)}", file=sys.stderr)
        return _FAILED


def parser(command: str) -> argparse.ArgumentParser:
    """The parser of a command as `zketcd` has it. Raises MissingPackage."""
    summary = COMMANDS[command].summary
    made = Parser(prog=f"zketcd {command}", description=summary, allow_abbrev=False)
    module = _imported(COMMANDS[command].module)
    module.add_arguments(made)
    made.set_defaults(run=module.run)
    return made


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """All commands, with the options of the one that `words` names. Raises MissingPackage."""
    parser = Parser(
        prog="python -m pipeline",
        description="Copy a tree of ZooKeeper into etcd and back, and compare the copies.",
    )
    chosen = next((word for word in words if not word.startswith("-")), None)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.summary, description=command.summary, allow_abbrev=False)
        if name == chosen:
            module = _imported(command.module)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def _imported(name: str) -> ModuleType:
    try:
        leave_pandas_out()
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise MissingPackage(f"{error.name} is not installed: {how_to_add('pipeline-small')}") from error


if __name__ == "__main__":
    sys.exit(guarded(main, "python -m pipeline", failed=_FAILED))
