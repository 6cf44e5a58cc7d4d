"""Ten times more than the server can take: memory, fairness, and how soon a lone client is served again."""

import threading

from bench import costs, summary
from bench.load import Admin, connected, drive
from bench.scenarios import Table
from bench.servers import targets
from bench.workloads import Create, Exists, prepare

CONNECTIONS = 64
DEPTHS = (32, 200)  # 2,048 in flight keep it busy; 12,800 are more than it will read at once
SECONDS = 3.0


def run(scale: float) -> Table:
    """Three seconds a run at scale 1."""
    seconds = max(0.3, SECONDS * scale)
    rows: list[list[float | str | int]] = []
    with targets(["zookeeper", "zketcd"]) as started:
        for target in started:
            pids = costs.process_tree(target.processes["server"])
            with Admin(target.port) as admin:
                lone = Exists(b"/lone", 1, 0)
                prepare(lone, admin)
                for depth in DEPTHS:
                    workload = Create(b"/over%d" % depth, CONNECTIONS, 0)
                    prepare(workload, admin)
                    memory = _Highest(pids)
                    with connected(target.port, [workload.stream(i) for i in range(CONNECTIONS)]) as load:
                        timing = drive(load, depth, seconds)
                    highest = memory.stop()
                    workload.verify(admin, timing.counts)
                    with connected(target.port, [lone.stream(0)]) as alone:
                        after = drive(alone, 1, 0.2)
                    p50, p99 = summary.percentiles(timing.samples, (0.5, 0.99))
                    rows.append(
                        [
                            target.name,
                            CONNECTIONS * depth,
                            sum(timing.counts) / timing.seconds,
                            p50 / 1e6,
                            p99 / 1e6,
                            min(timing.counts) / (sum(timing.counts) / CONNECTIONS),
                            highest / 1e6,
                            max(latency for latency, _ in after.samples) / 1e6,
                        ]
                    )
    return Table(
        "Creates kept in flight by 64 connections, then at once a lone client's reads",
        [
            "server",
            "in flight",
            "op/s",
            "p50, ms",
            "p99, ms",
            "slowest connection's share",
            "highest RSS, MB",
            "slowest read after, ms",
        ],
        rows,
    )


class _Highest:
    """The most resident memory of some processes, looked at every 50 ms."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._most = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Bytes."""
        self._stopped.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._stopped.wait(0.05):
            self._most = max(self._most, costs.resident_bytes(self._pids))
