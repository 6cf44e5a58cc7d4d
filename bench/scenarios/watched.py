"""Reads and writes, nine to one, while 10,000 watches on other nodes are set."""

from bench import wire
from bench.load import Admin
from bench.scenarios import Table
from bench.scenarios.crowd import crowd
from bench.servers import targets
from bench.worker import Spec
from bench.worker import run as run_spec
from bench.workloads import Cell

WATCHERS = 100
CONNECTIONS, DEPTH = 64, 32
ROUNDS = 3
SECONDS = 1.0


def run(scale: float) -> Table:
    """100 sessions with 100 watches each at scale 1."""
    each = max(1, round(100 * scale))
    seconds = max(0.2, SECONDS * scale)
    rows: list[list[float | str | int]] = []
    with targets(["zookeeper", "zketcd"]) as started:
        for target in started:
            with Admin(target.port) as admin, crowd(target.port, WATCHERS) as sessions:
                paths = [b"/watched%04d" % number for number in range(each)]
                admin.call_many((wire.CREATE, wire.create_body(path, b"")) for path in paths)
                watches = [
                    wire.packet(number, wire.EXISTS, wire.text(path) + b"\1")
                    for number, path in enumerate(paths, 1)
                ]
                sessions.ask(b"".join(watches), each * (wire.REPLY_SIZE + wire.STAT_SIZE))
                seen = []
                for number in range(ROUNDS + 1):  # the first warms the server up
                    spec = Spec(target, Cell("mixed", CONNECTIONS, DEPTH), seconds)
                    seen.append(run_spec(spec, number))
                best = sorted(seen[1:], key=lambda figures: figures["rate"])[ROUNDS // 2]
            rows.append([target.name, best["rate"], best["p50_ms"], best["p99_ms"]])
    return Table(
        f"90 % reads, 10 % sets by {CONNECTIONS} connections, depth {DEPTH}; {WATCHERS * each:,} watches set",
        ["server", "op/s", "p50, ms", "p99, ms"],
        rows,
    )
