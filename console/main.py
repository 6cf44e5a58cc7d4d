"""`zketcd console-user NAME`: prints the line of a user for --console-users."""

import getpass
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from cli.commands import parser_of
from console.people.passwords import SHORTEST, check_name, line, make

_DESCRIPTION = f"""Print the line of a user for the file that --console-users names. The password has at
least {SHORTEST} characters. It is asked for on the terminal, or is the first line of the standard input."""


def parser(command: str) -> ArgumentParser:
    """The parser of the command."""
    made = parser_of(command, _DESCRIPTION)
    made.add_argument("name", metavar="NAME", help="the user's name: letters, digits, and . _ @ -")
    return made


def main(arguments: Sequence[str], command: str) -> int:
    """Print one line; the exit code: 2 for a name or password that cannot be used."""
    program = parser(command)
    name = program.parse_args(arguments).name
    try:
        check_name(name)
        print(line(name, make(_password())))
    except ValueError as error:
        program.error(str(error))
    return 0


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        password = getpass.getpass("Password: ")
        again = getpass.getpass("Again: ")
    except EOFError:
        raise ValueError("no password was given") from None
    if again != password:
        raise ValueError("the two passwords differ")
    return password
