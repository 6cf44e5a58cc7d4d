"""Sessions that do nothing but ping: what they cost."""

import time

from bench import costs
from bench.scenarios import Table
from bench.scenarios.crowd import crowd
from bench.servers import targets

PING_EVERY = 10.0  # a third of the sessions' timeout, as clients ping


def run(scale: float) -> Table:
    """5,000 sessions for 20 s at scale 1."""
    seconds = max(2.0, 20.0 * scale)
    count = max(1, round(5000 * scale))
    rows: list[list[float | str | int]] = []
    with targets(["zookeeper", "zketcd"]) as started:
        for target in started:
            trees = {role: costs.process_tree(pid) for role, pid in target.processes.items()}
            empty = {role: costs.resident_bytes(pids) for role, pids in trees.items()}
            begun = time.perf_counter()
            with crowd(target.port, count) as sessions:
                connected = time.perf_counter() - begun
                before = {role: costs.cpu_seconds(pids) for role, pids in trees.items()}
                sessions.stay(seconds, PING_EVERY)
                for role, pids in trees.items():
                    spent = costs.cpu_seconds(pids) - before[role]
                    resident = costs.resident_bytes(pids)
                    rows.append(
                        [
                            target.name if role == "server" else f"{target.name}'s {role}",
                            connected,
                            100 * spent / seconds,
                            resident / 1e6,
                            (resident - empty[role]) / count / 1e3,
                        ]
                    )
    return Table(
        f"{count:,} idle sessions, each with a ping every {PING_EVERY:.0f} s, over {seconds:.0f} s",
        ["process", "all connected, s", "CPU, % of a core", "RSS, MB", "RSS a session, kB"],
        rows,
    )
