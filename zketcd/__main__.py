"""Start of `zketcd`: finds the command, imports its program, and hands the arguments over.

Exit codes are the program's: 2 stands for wrong usage, and for a program whose libraries are not installed.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

try:
    from cli.commands import Command, available
    from proxy.support.stdout import TERMINATED, guarded, terminate
    from zketcd.manual import top
except KeyboardInterrupt:  # nothing has begun, so there is nothing to say. `guarded` has what comes later
    sys.exit(128 + signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Wrong usage exits with 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = available().get(given[0]) if given else None
    if command is None:
        top().parse_args(given or ["--help"])  # ends the process: 0 for --help and --version, else 2
        raise AssertionError(f"a command that argparse knows and the table does not: {given}")
    return _run(given[0], command, given[1:])


def _run(name: str, command: Command, arguments: Sequence[str]) -> int:
    try:
        program = import_module(command.module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if find_spec(missing) is not None:
            raise  # a module of a package that is here, ours or another one: a defect
        print(
            f"zketcd {name}: the Python package {missing} is not installed. docs/install.md says how to add"
            " what this command needs",
            file=sys.stderr,
        )
        return 2
    return int(program.main(arguments, name))


def entry() -> int:
    """What the installed command runs: `main`, with a standard output that may fail."""
    command = available().get(sys.argv[1]) if len(sys.argv) > 1 else None
    module = "" if command is None else command.module
    signal.signal(signal.SIGTERM, terminate)  # until the server, which drains, has another one
    # To the pipeline 1 means that trees differ, or cannot be moved. The server can do without `ready`.
    failed = 2 if module.startswith("pipeline.") else 0 if module == "serve.__main__" else 1
    status = guarded(main, "zketcd", failed=failed)
    if status == TERMINATED:
        # To systemd an end by this signal is no failure. A container's first process ends with the exit code.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    return status


if __name__ == "__main__":
    sys.exit(entry())
