"""`zketcd completion SHELL`: completion for bash, zsh and fish.

A package has the scripts as files next to this module (`make package` writes them), because it has neither
shtab nor Spark. A checkout makes them when they are asked for.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from cli.commands import available, parser_of
from zketcd.manual import top

SHELLS = ("bash", "zsh", "fish")
_FILES = Path(__file__).parent / "completions"


def parser(command: str) -> ArgumentParser:
    """The parser of the command."""
    made = parser_of(command)
    made.add_argument("shell", choices=SHELLS)
    return made


def main(arguments: Sequence[str], command: str) -> int:
    """Print one script; the exit code."""
    shell = parser(command).parse_args(arguments).shell
    file = file_of(_FILES, shell)
    try:
        print(file.read_text() if file.exists() else script(shell), end="")
    except ModuleNotFoundError as error:
        print(f"zketcd completion: {error.name} is not installed: run `make setup-dev`", file=sys.stderr)
        return 2
    return 0


def file_of(folder: Path, shell: str) -> Path:
    """The file of a shell's script in a folder."""
    return folder / f"zketcd.{shell}"


def script(shell: str) -> str:
    """The completion script of a shell. Raises ModuleNotFoundError without shtab or a program's libraries."""
    import shtab

    programs = {name: import_module(each.module).parser(name) for name, each in available().items()}
    for program in programs.values():
        for action in program._actions:
            completed = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}.get(str(action.metavar))
            if completed:
                action.complete = completed
    return str(shtab.complete(top(programs), shell))
