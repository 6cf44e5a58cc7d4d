"""What all commands of examples have in common: options, comparison, tables, JSON, exit codes.

A workload gives its own options and a coroutine that runs it once. Exit codes: 0 if all invariants held, 1 if
one was violated (its name is printed), 2 for wrong usage and for servers that cannot be reached or started.
"""

import argparse
import asyncio
import json
import re
import secrets
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, NoReturn

import uvloop

from bench.environment import machine
from bench.scenarios import Cell, Table, markdown
from bench.summary import medians, percentiles
from codec.client import create
from examples.invariants import Violation
from examples.servers import Server, started
from examples.tree import delete_tree, make_parents
from lab.arguments import count, seconds
from lab.client.meter import Latencies, Meter
from lab.client.session import Address, ConnectionLost, ZooKeeperError, connected
from lab.servers import BinaryMissing, StartFailed
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file

_SHARES = {"p50": 0.5, "p99": 0.99, "longest": 1.0}
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:,\[\]=]+)):([0-9]{1,5})")


class Findings(NamedTuple):
    """What one run of a workload found. The figures are those of its timed part."""

    steps: int
    """How many of what the workload does were done."""
    seconds: float
    latencies: Mapping[str, Latencies]
    """What was timed -> how long it took."""
    facts: Mapping[str, float]
    """Other counts, by name."""


class Surroundings(NamedTuple):
    """Where one run happens."""

    addresses: Sequence[Address]
    root: str
    """An empty node, the run's own."""
    meter: Meter
    """To be given to every session that counts."""


class Workload(NamedTuple):
    """One program."""

    name: str
    """The package's name."""
    summary: str
    step: str
    """What one step is, e.g. "insert"."""
    steps: str
    """The plural."""
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Surroundings, argparse.Namespace], Coroutine[Any, Any, Findings]]
    """Raises Violation."""


def server(value: str) -> Server:
    """An argparse type: [LABEL=]HOST:PORT[,HOST:PORT...]."""
    label, equals, listed = value.rpartition("=")
    found = []
    for each in listed.split(","):
        match = _ADDRESS.fullmatch(each)
        if match is None or not 0 < int(match[3]) < 65_536:
            raise argparse.ArgumentTypeError(f"{each!r} isn't HOST:PORT")
        found.append(Address(match[1] or match[2], int(match[3])))
    if equals and not label:
        raise argparse.ArgumentTypeError(f"{value!r} has an empty label")
    return Server(label or listed, found)


def _node(value: str) -> str:
    if value == "/" or re.fullmatch(r"(?:/[^/\s]+)+", value):
        return value.rstrip("/")
    raise argparse.ArgumentTypeError(f"{value!r} isn't the path of a node")


def add_servers(made: argparse.ArgumentParser) -> None:
    """The options that say where a program runs."""
    made.add_argument(
        "server",
        nargs="?",
        type=server,
        metavar="[LABEL=]HOST:PORT[,HOST:PORT...]",
        help="the server; several addresses of one tree: the simulated hosts spread over them",
    )
    made.add_argument(
        "--beside", type=server, metavar="[LABEL=]HOST:PORT[,...]", help="run on this server too and compare"
    )
    made.add_argument(
        "--start", action="store_true", help="start zketcd with its own etcd and real ZooKeeper, compare them"
    )
    made.add_argument(
        "--proxies", type=count, default=1, help="with --start: zketcd's proxies (default: %(default)s)"
    )
    made.add_argument(
        "--below", type=_node, default="/", metavar="PATH", help="where the run makes its node (default: /)"
    )


def check_servers(command: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the process with 2 where the options of `add_servers` contradict each other."""
    if options.start == (options.server is not None):
        command.error("give a server's address or --start, and not both")
    if options.start and options.beside:
        command.error("--start compares with a ZooKeeper that it starts: leave --beside out")
    if options.beside and options.beside.label == options.server.label:
        command.error(f"both servers have the label {options.server.label}")


def servers_of(stack: ExitStack, options: argparse.Namespace) -> list[Server]:
    """Those that the options name, or that are started for as long as the stack lives."""
    if options.start:
        return stack.enter_context(started(options.proxies))
    return [options.server, *([options.beside] if options.beside else [])]


def parser(workload: Workload) -> argparse.ArgumentParser:
    """The command line of a workload."""
    made = Parser(prog=f"python -m examples.{workload.name}", description=workload.summary)
    add_servers(made)
    made.add_argument(
        "--seconds", type=seconds, default=10.0, help="length of the timed part (default: %(default)g)"
    )
    made.add_argument(
        "--seed", type=int, default=1, help="what the simulated hosts do follows from it (default: 1)"
    )
    made.add_argument(
        "--rounds",
        type=count,
        default=1,
        help="run so often on each server in turn and give medians (default: 1)",
    )
    made.add_argument(
        "--keep", action="store_true", help="leave the run's node there; one with a violation always stays"
    )
    made.add_argument("--json", type=output_file, metavar="FILE", help="where the figures go as well")
    workload.add_options(made)
    return made


def main(workload: Workload, arguments: Sequence[str] | None = None) -> int:
    """Run a workload's command; its exit code. Wrong usage exits with 2."""
    command = parser(workload)
    options = command.parse_args(arguments)
    check_servers(command, options)
    facts = machine()
    try:
        with ExitStack() as stack:
            servers = servers_of(stack, options)
            found = _rounds(workload, servers, options)
    except _Violated as violated:
        print(f"{workload.name}: VIOLATED {violated}", file=sys.stderr)
        return 1
    except (ConnectionLost, OSError, ZooKeeperError, BinaryMissing, StartFailed) as error:
        print(f"{workload.name}: {error}", file=sys.stderr)
        return 2
    print(markdown(table(workload, options, found)))
    print("\nall invariants held")
    if options.json:
        document = _document(workload, options, servers, facts, found)
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def run_command(workload: Workload) -> NoReturn:
    """`python -m examples.NAME`: run the command with the arguments of the process, and end the process."""
    sys.exit(guarded(lambda: main(workload), workload.name))


class _Violated(Exception):
    """A violation with the server's label and the node that holds what is left of the run."""


def _rounds(
    workload: Workload, servers: Sequence[Server], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {each.label: [] for each in servers}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for number in range(1, options.rounds + 1):
            for each in servers:
                print(f"{each.label}, round {number} of {options.rounds} ...", file=sys.stderr, flush=True)
                found[each.label].append(runner.run(once(workload, each, options)))
    return {label: medians(rounds) for label, rounds in found.items()}


async def once(workload: Workload, each: Server, options: argparse.Namespace) -> dict[str, float]:
    """Run a workload once, below a node of its own; its figures by name."""
    root = f"{options.below}/{workload.name}-{secrets.token_hex(4)}"
    async with connected(each.addresses, timeout_s=0.0) as session:
        await make_parents(session, root)
        await session.call(create(root))
    meter = Meter()
    try:
        findings = await workload.run(Surroundings(each.addresses, root, meter), options)
    except Violation as violation:
        raise _Violated(f"at {each.label}: {violation} (what is left is below {root})") from violation
    if not options.keep:
        async with connected(each.addresses) as session:
            await delete_tree(session, root)
    return figures(workload, findings, meter)


def figures(workload: Workload, findings: Findings, meter: Meter) -> dict[str, float]:
    """The run's figures by name, in the order in which the table has them. Latencies in milliseconds."""
    each = f"{'an' if workload.step[0] in 'aeiou' else 'a'} {workload.step}"
    steps, passed = max(findings.steps, 1), max(findings.seconds, 1e-9)
    requests = meter.requests.total()
    found: dict[str, float] = {f"{workload.steps} a second": findings.steps / passed}
    for what, latencies in {**findings.latencies, "a request": meter.latencies}.items():
        if latencies:
            values = percentiles(latencies.items(), list(_SHARES.values()))
            for name, value in zip(_SHARES, values, strict=True):
                found[f"{what}, {name}, ms"] = value / 1000
    found[f"requests {each}"] = requests / steps
    for name, number in sorted(meter.requests.items()):
        found[f"of these {name}"] = number / steps
    found[f"watch events {each}"] = meter.events / steps
    found["requests a second"] = requests / passed
    return {**found, workload.steps: findings.steps, **findings.facts}


def table(workload: Workload, options: argparse.Namespace, found: Mapping[str, Mapping[str, float]]) -> Table:
    """A row for each figure, a column for each server, and the ratio if there are two."""
    labels = list(found)
    rows: list[list[Cell]] = []
    for name in {name: None for each in found.values() for name in each}:
        values = [each.get(name) for each in found.values()]
        cells: list[Cell] = ["" if value is None else value for value in values]
        if len(values) == 2:
            first, second = values
            cells.append(first / second if first is not None and second else "")
        rows.append([name, *cells])
    head = ["", *labels, *([f"{labels[0]} / {labels[1]}"] if len(labels) == 2 else [])]
    title = f"{workload.name}: {options.seconds:g} s, seed {options.seed}, {options.rounds} round(s)"
    return Table(title, head, rows)


def _document(
    workload: Workload,
    options: argparse.Namespace,
    servers: Sequence[Server],
    facts: Mapping[str, object],
    found: Mapping[str, Mapping[str, float]],
) -> dict[str, object]:
    given = {name: value for name, value in vars(options).items() if name not in ("server", "beside", "json")}
    return {
        "workload": workload.name,
        "environment": dict(facts),
        "options": given,
        "servers": {
            each.label: {"addresses": list(map(str, each.addresses)), **found[each.label]} for each in servers
        },
    }
