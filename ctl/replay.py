"""`replay`: the tree as it was at a position, as far as the log in etcd reaches back."""

from argparse import ArgumentParser
from typing import Any

from cli.commands import COMMANDS, description_of
from cli.output import CommandFailed, Output
from ctl.program import PAST, Past, Program, Tree, program_of
from proxy.options import values
from proxy.state.machine import Machine
from proxy.support.usage import Parser


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--to", type=values.positive, required=True, metavar="POSITION", help="the last position to apply"
    )
    inner = parser.add_subparsers(dest="inner", metavar="COMMAND", required=True, parser_class=Parser)
    for name in PAST:
        # A plain parser: one of configargparse's would read the environment and the file again.
        summary, description = COMMANDS[name].summary, description_of(name)
        program_of(name).arguments(inner.add_parser(name, help=summary, description=description))


def _run(tree: Tree, given: Any) -> Output | None:
    def load() -> Machine:
        loaded = tree.loaded(given.to)
        if given.to > loaded.caught.revision:
            raise CommandFailed(
                f"position {given.to} is yet to come: etcd is at revision {loaded.caught.revision}"
            )
        return loaded.machine

    return program_of(given.inner).run(Past(tree, load), given)


PROGRAMS = {"replay": Program(_run, _arguments)}
