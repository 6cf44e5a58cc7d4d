"""The command line that `proof.simulation.gaps` and `proof.torture.gaps` have in common."""

import argparse

from lab.arguments import count, number
from proof.gaps import KINDS
from proxy.support.usage import Parser


def gap_parser(prog: str, description: str | None, *, times: int, seed: str) -> Parser:
    """The options that both have. `times`: the default of --times; `seed`: what --seed is for."""
    parser = Parser(prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--kinds", default=",".join(KINDS), metavar="A,B", help=f"of {', '.join(KINDS)} (default: all)")
    add("--times", type=count, default=times, metavar="N", help=f"how often each (default: {times})")
    add("--seconds", type=number(1e6), default=8.0, metavar="S", help="how long each lasts (default: 8)")
    add("--proxies", type=count, default=1, metavar="N", help="number of proxies (default: 1)")
    add("--seed", type=int, default=1, metavar="N", help=f"{seed} (default: 1)")
    return parser


def kinds_of(parser: Parser, names: str) -> list[str]:
    """The kinds that --kinds names. Ends the program with 2 for a name that is none."""
    kinds = [kind for kind in names.split(",") if kind]
    if set(kinds) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(set(kinds) - set(KINDS)))}")
    return kinds
