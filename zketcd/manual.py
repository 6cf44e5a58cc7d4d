"""`zketcd help [COMMAND]`, and the parser of `zketcd` itself: what comes before a command."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from cli.commands import available, parser_of
from proxy.support.usage import Parser
from proxy.version import VERSION

_DESCRIPTION = """A server for ZooKeeper clients that keeps all its state in etcd, and its tools.
`zketcd COMMAND --help` shows the options of a command."""


def top(programs: Mapping[str, ArgumentParser] | None = None) -> ArgumentParser:
    """The parser; with the programs' parsers, by command, it has their options too."""
    made = Parser(prog="zketcd", description=_DESCRIPTION, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=f"zketcd {VERSION}")
    listed: Any = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in available().items():
        if programs is None:
            listed.add_parser(name, help=command.summary)
        else:
            listed.add_parser(name, help=command.summary, parents=[programs[name]], add_help=False)
    return made


def parser(command: str) -> ArgumentParser:
    """The parser of the command."""
    made = parser_of(command)
    made.add_argument("command", nargs="?", metavar="COMMAND", choices=sorted(available()))
    return made


def main(arguments: Sequence[str], command: str) -> int:
    """Print the help; the exit code."""
    asked = parser(command).parse_args(arguments).command
    if asked:
        return int(import_module(available()[asked].module).main(["--help"], asked))
    top().print_help()
    return 0
