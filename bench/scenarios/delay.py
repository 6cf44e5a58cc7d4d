"""An etcd that is far away: what a round trip of 5 and 20 ms does to a lone write and to many at once."""

from bench.scenarios import Table
from bench.servers import ETCD_OPTIONS, Target
from bench.worker import Spec
from bench.worker import run as run_spec
from bench.workloads import Cell
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.relay import DelayingRelay

DELAYS_MS = (0, 5, 20)
SECONDS = 2.0


def run(scale: float) -> Table:
    """Two seconds a run at scale 1."""
    rows: list[list[float | str | int]] = []
    seconds = max(0.2, SECONDS * scale)
    with EtcdServer(*ETCD_OPTIONS) as etcd:
        for delay in DELAYS_MS:
            with (
                DelayingRelay(etcd.port, delay / 2000) as relay,
                ZketcdServer(relay.endpoint, max_client_connections=0, prefix=f"/delay{delay}") as zketcd,
            ):
                target = Target("zketcd", "zookeeper", zketcd.port, {"server": zketcd.pid}, etcd.endpoint)
                row: list[float | str | int] = [delay]
                for connections, depth in ((1, 1), (64, 32)):
                    figures = run_spec(Spec(target, Cell("create", connections, depth), seconds), delay)
                    row += [figures["rate"], figures["p50_ms"], figures["p99_ms"]]
                rows.append(row)
    head = ["round trip added, ms"]
    head += [f"{what} {load}" for load in ("1 x 1", "64 x 32") for what in ("op/s", "p50 ms", "p99 ms")]
    return Table("Creates on an etcd that is far away (connections x depth)", head, rows)
