"""`python -m bench.scenarios`: run some scenarios, print their tables, write JSON."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.scenarios import Table, delay, fanout, growth, idle, markdown, memory, overload, proxies, watched
from tests.harness import BinaryMissing, StartFailed

SCENARIOS: dict[str, Callable[[float], Table]] = {
    "fanout": fanout.run,
    "watched": watched.run,
    "idle": idle.run,
    "memory": memory.run,
    "growth": growth.run,
    "proxies": proxies.run,
    "delay": delay.run,
    "overload": overload.run,
}


def scale(value: str) -> float:
    """An argparse type: a share above 0, up to 1."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{value!r} isn't a number above 0, up to 1")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios; returns 1 if one could not be run to its end."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scenarios", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(SCENARIOS)} (default: all)"
    )
    parser.add_argument("--scale", type=scale, default=1.0, help="a share of the full size (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go as well")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in SCENARIOS:
            parser.error(f"{name!r} is none of {', '.join(SCENARIOS)}")
    tables = {}
    failed = False
    for name in options.names or SCENARIOS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            tables[name] = SCENARIOS[name](options.scale)
        except (BenchError, BinaryMissing, StartFailed) as error:
            print(f"bench: {name}: {error}", file=sys.stderr)
            failed = True
            continue
        print(markdown(tables[name]), end="\n\n", flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({name: table._asdict() for name, table in tables.items()}, indent=1) + "\n"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
