"""`python -m examples.zero_copy`: run it on one server or two, below a node of its own, and print a table.

Exit codes: 0 if all invariants held, 1 if one was violated (its name is printed), 2 for wrong usage and for
servers that cannot be reached or started.
"""

import argparse
import asyncio
import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import uvloop

from bench.environment import machine
from bench.scenarios import Cell, Table, markdown
from bench.summary import medians, percentiles
from codec.client import create
from examples.servers import Server, add_servers, check_servers, servers_of
from examples.tree import delete_tree, make_parents
from examples.zero_copy.host import Settings
from examples.zero_copy.run import Findings, run
from examples.zero_copy.storage import Violation
from examples.zero_copy.surroundings import Connecting, Surroundings
from lab.arguments import count, rate, seconds
from lab.client.meter import Meter
from lab.client.session import SESSION_TIMEOUT_MS, ConnectionLost, ZooKeeperError, connected
from lab.servers import BinaryMissing, StartFailed
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file

_SHARES = {"p50": 0.5, "p99": 0.99, "longest": 1.0}


class _Violated(Exception):
    """A violation with the server's label and the node that holds what is left of the run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code. Wrong usage exits with 2."""
    parser = Parser(
        prog="python -m examples.zero_copy",
        description="ClickHouse's S3 zero-copy replication: marks and locks of shared parts, with every"
        " deletion checked.",
    )
    add_servers(parser)
    _add_options(parser)
    options = parser.parse_args(arguments)
    check_servers(parser, options)
    facts = machine()
    try:
        with ExitStack() as stack:
            servers = servers_of(stack, options)
            found = _rounds(servers, options)
    except _Violated as violated:
        print(f"zero_copy: VIOLATED {violated}", file=sys.stderr)
        return 1
    except (ConnectionLost, OSError, ZooKeeperError, BinaryMissing, StartFailed) as error:
        print(f"zero_copy: {error}", file=sys.stderr)
        return 2
    print(markdown(_table(options, found)))
    print("\nall invariants held")
    if options.json:
        options.json.write_text(json.dumps(_document(options, servers, facts, found), indent=1) + "\n")
    return 0


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--hosts", type=count, default=4, help="simulated servers (default: %(default)s)")
    add(
        "--session-timeout",
        type=seconds,
        default=SESSION_TIMEOUT_MS / 1000,
        help="of each host's session, in seconds (default: %(default)g)",
    )
    add("--rate", type=rate, default=0.0, help="inserts a second of all hosts; 0: all they can (default)")
    add("--hybrid", action="store_true", help="insert on local disks; every host moves its parts to S3 later")
    add("--buckets", type=count, default=1, help="the hosts take turns to use them (default: %(default)s)")
    add("--seconds", type=seconds, default=10.0, help="length of the load (default: %(default)g)")
    add("--seed", type=int, default=1, help="what the simulated hosts do follows from it (default: 1)")
    add(
        "--rounds",
        type=count,
        default=1,
        help="run so often on each server in turn and give medians (default: 1)",
    )
    add("--keep", action="store_true", help="leave the run's node there; one with a violation always stays")
    add("--json", type=output_file, metavar="FILE", help="where the figures go as well")


def _rounds(servers: Sequence[Server], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {each.label: [] for each in servers}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for number in range(1, options.rounds + 1):
            for each in servers:
                print(f"{each.label}, round {number} of {options.rounds} ...", file=sys.stderr, flush=True)
                found[each.label].append(runner.run(_once(each, options)))
    return {label: medians(rounds) for label, rounds in found.items()}


async def _once(each: Server, options: argparse.Namespace) -> dict[str, float]:
    """One run, below a node of its own; its figures by name."""
    root = f"{options.below}/zero_copy-{secrets.token_hex(4)}"
    async with connected(each.addresses, timeout_s=0.0) as session:
        await make_parents(session, root)
        await session.call(create(root))
    meter = Meter()
    connecting = Connecting(session_timeout_ms=round(options.session_timeout * 1000))
    try:
        findings = await run(
            Surroundings(each.addresses, root, meter),
            hosts=options.hosts,
            rate=options.rate,
            seconds=options.seconds,
            seed=options.seed,
            settings=Settings(connecting, hybrid=options.hybrid, buckets=options.buckets),
        )
    except Violation as violation:
        raise _Violated(f"at {each.label}: {violation} (what is left is below {root})") from violation
    if not options.keep:
        async with connected(each.addresses) as session:
            await delete_tree(session, root)
    return _figures(findings, meter)


def _figures(findings: Findings, meter: Meter) -> dict[str, float]:
    """The run's figures by name, in the order in which the table has them. Latencies in milliseconds."""
    inserts, passed = max(findings.inserts, 1), max(findings.seconds, 1e-9)
    requests = meter.requests.total()
    found: dict[str, float] = {"inserts a second": findings.inserts / passed}
    for what, latencies in {**findings.latencies, "a request": meter.latencies}.items():
        if latencies:
            values = percentiles(latencies.items(), list(_SHARES.values()))
            for name, value in zip(_SHARES, values, strict=True):
                found[f"{what}, {name}, ms"] = value / 1000
    found["requests an insert"] = requests / inserts
    for name, number in sorted(meter.requests.items()):
        found[f"of these {name}"] = number / inserts
    found["watch events an insert"] = meter.events / inserts
    found["requests a second"] = requests / passed
    return {**found, "inserts": findings.inserts, **findings.facts}


def _table(options: argparse.Namespace, found: Mapping[str, Mapping[str, float]]) -> Table:
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
    title = f"zero_copy: {options.seconds:g} s, seed {options.seed}, {options.rounds} round(s)"
    return Table(title, head, rows)


def _document(
    options: argparse.Namespace,
    servers: Sequence[Server],
    facts: Mapping[str, object],
    found: Mapping[str, Mapping[str, float]],
) -> dict[str, object]:
    given = {name: value for name, value in vars(options).items() if name not in ("server", "beside", "json")}
    return {
        "environment": dict(facts),
        "options": given,
        "servers": {
            each.label: {"addresses": list(map(str, each.addresses)), **found[each.label]} for each in servers
        },
    }


if __name__ == "__main__":
    sys.exit(guarded(main, "zero_copy"))
