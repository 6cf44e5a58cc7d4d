"""`zketcd help [COMMAND]`: the help of zketcd, or that of a command."""

from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module

from proxy.support.usage import Parser
from zketcd.commands import available
from zketcd.parsers import top


def parser(command: str = "help") -> ArgumentParser:
    """The parser of the command."""
    made = Parser(prog=f"zketcd {command}", description=available()[command].summary)
    made.add_argument("command", nargs="?", metavar="COMMAND", choices=sorted(available()))
    return made


def main(arguments: Sequence[str] | None = None, command: str = "help") -> int:
    """Print the help; the exit code."""
    asked = parser(command).parse_args(arguments).command
    if asked:
        return int(import_module(available()[asked].module).main(["--help"], asked))
    top().print_help()
    return 0
