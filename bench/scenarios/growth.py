"""What an operation costs as the tree grows, and as the connections do."""

import sys

from bench.load import Admin
from bench.scenarios import Table
from bench.scenarios.memory import nodes
from bench.servers import targets
from bench.worker import Spec
from bench.worker import run as run_spec
from bench.workloads import Cell

ZNODES = (1_000, 10_000, 100_000, 1_000_000)
CONNECTIONS = (1, 10, 100, 1000, 2000)
WORKLOADS = ("get", "create")
DEPTHS = (1, 32)
SECONDS = 1.0


def run(scale: float) -> Table:
    """From 1,000 to a million znodes, and from 1 to 2,000 connections, at scale 1."""
    rows: list[list[float | str | int]] = []
    number = 0
    with targets(["zketcd"]) as (zketcd,):

        def measure(what: str, connections: int, depth: int) -> None:
            nonlocal number
            print(f"  {what}, {connections} connections, depth {depth}", file=sys.stderr, flush=True)
            row: list[float | str | int] = [what, connections, depth]
            for workload in WORKLOADS:
                number += 1
                figures = run_spec(Spec(zketcd, Cell(workload, connections, depth), SECONDS), number)
                row += [figures["rate"], 1000 * figures["cpu_server"], figures["p99_ms"]]
            rows.append(row)

        there = 0
        with Admin(zketcd.port) as admin:
            filling = nodes(round(ZNODES[-1] * scale))
            for size in ZNODES:
                wanted = max(1, round(size * scale))
                admin.call_many(request for _, request in zip(range(wanted - there), filling, strict=False))
                there = wanted
                measure(f"{wanted:,} znodes", 64, 32)
            admin.close_session()
        for depth in DEPTHS:
            for connections in CONNECTIONS:
                measure(f"{there:,} znodes", max(1, round(connections * min(1.0, 10 * scale))), depth)
    head = ["tree", "connections", "depth"]
    head += [f"{name}: {what}" for name in WORKLOADS for what in ("op/s", "CPU, us/op", "p99 ms")]
    return Table("The cost of an operation as tree and connections grow (zketcd's proxy)", head, rows)
