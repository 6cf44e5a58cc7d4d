"""One change that many sessions watch: how soon the first and the last of them know."""

import statistics
import time

from bench import wire
from bench.load import Admin
from bench.scenarios import Table
from bench.scenarios.crowd import crowd
from bench.servers import targets

PATH = b"/fanout"
ROUNDS = 20
# The notification: header, type, state, path.
_EVENT = wire.REPLY_SIZE + 4 + 4 + 4 + len(PATH)


def run(scale: float) -> Table:
    """1,000 watchers at scale 1."""
    watchers = max(1, round(1000 * scale))
    rows: list[list[float | str | int]] = []
    with targets(["zookeeper", "zketcd"]) as started:
        for target in started:
            first, last = [], []
            with Admin(target.port) as admin, crowd(target.port, watchers) as sessions:
                admin.call(wire.CREATE, wire.create_body(PATH, b""))
                watch = wire.packet(1, wire.EXISTS, wire.text(PATH) + b"\1")
                for _ in range(ROUNDS):
                    sessions.ask(watch, wire.REPLY_SIZE + wire.STAT_SIZE)
                    changed = time.perf_counter()
                    admin.call(wire.SET_DATA, wire.set_body(PATH, b""))
                    moments = sessions.arrivals(_EVENT)
                    first.append(moments[0] - changed)
                    last.append(moments[-1] - changed)
            rows.append([target.name, *(1000 * statistics.median(seen) for seen in (first, last))])
    return Table(
        f"One change seen by {watchers:,} watchers (median of {ROUNDS} rounds, from the setData's sending)",
        ["server", "first told, ms", "all told, ms"],
        rows,
    )
