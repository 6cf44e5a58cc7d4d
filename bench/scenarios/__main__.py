"""`python -m bench.scenarios`: run some scenarios, print their tables, write JSON.

The JSON holds each scenario by its name: the table, and under what it was taken. A run of some scenarios
leaves the others' figures in the file as they are.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.environment import described, here_and_now
from bench.errors import BenchError
from bench.report import json_text
from bench.scenarios import (
    Table,
    clickhouse,
    clickhouse_deployed,
    deployed,
    idle,
    large,
    markdown,
    memory,
    move,
    pipeline,
    sidecars,
    snapshots,
    turns,
    upgrade,
)
from lab.arguments import number
from lab.servers import BinaryMissing, StartFailed
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file

SCENARIOS: dict[str, Callable[[float], Table]] = {
    "idle": idle.run,
    "memory": memory.run,
    "sidecars": sidecars.run,
    "snapshots": snapshots.run,
    "large": large.run,
    "clickhouse": clickhouse.run,
    "clickhouse-deployed": clickhouse_deployed.run,
    "deployed": deployed.run,
    "move": move.run,
    "pipeline": pipeline.run,
    "upgrade": upgrade.run,
    "turns": turns.run,
}


def earlier(path: Path) -> dict[str, Any]:
    """What the file holds, nothing where there is none. Raises ValueError if it holds something else."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    if not isinstance(found, dict) or not set(found) <= set(SCENARIOS):
        raise ValueError("it holds other things than scenarios")
    return found


def main(
    arguments: Sequence[str] | None = None, facts_of: Callable[[], Mapping[str, object]] = here_and_now
) -> int:
    """Run the scenarios; returns 1 if one could not be run to its end. `facts_of` the machine and moment."""
    parser = Parser(prog="python -m bench.scenarios", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(SCENARIOS)} (default: all)"
    )
    parser.add_argument("--scale", type=number(10), default=1.0, help="a share of the full size (default: 1)")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="where the figures go as well")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in SCENARIOS:
            parser.error(f"{name!r} is none of {', '.join(SCENARIOS)}")
    try:
        figures = earlier(options.json) if options.json else {}
    except (OSError, ValueError) as error:
        parser.error(f"{options.json}: {error}")
    failed = False
    for name in options.names or SCENARIOS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        begun = time.perf_counter()
        facts = {**facts_of(), "scale": options.scale}
        try:
            table = SCENARIOS[name](options.scale)
        except (BenchError, BinaryMissing, StartFailed, OSError) as error:
            # OSError: a server that closed a connection, or did not end in time.
            print(f"bench: {name}: {error!r}", file=sys.stderr)
            failed = True
            continue
        print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        print(f"{markdown(table)}\n\n{described(facts)}", end="\n\n", flush=True)
        figures[name] = {**table._asdict(), "environment": facts}
        if options.json:
            # After each: a run that is stopped keeps what it has.
            options.json.write_text(f"{json_text(figures)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(guarded(main, "bench"))
