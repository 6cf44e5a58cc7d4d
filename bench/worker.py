"""One run, on either protocol, from preparation to clean-up, executed in the generator's own process."""

import asyncio
import gc
import struct
import time
from typing import NamedTuple

import grpc

from bench import costs, etcd_load, summary
from bench.errors import Stalled
from bench.load import Admin, Timing, connected, drive
from bench.servers import Target
from bench.workloads import WORKLOADS, Cell, clean_up, prepare

SHARES = (0.5, 0.99)

# Requests for which nodes are prepared, per second of the run (only delete uses them up).
LIMIT_PIPELINED = 80_000
LIMIT_ONE_AT_A_TIME = 15_000


class Spec(NamedTuple):
    """What to run where, and for how long."""

    target: Target
    cell: Cell
    seconds: float

    @property
    def limit(self) -> int:
        """Requests at most, for workloads that use up what was prepared."""
        return int((LIMIT_PIPELINED if self.cell.depth > 1 else LIMIT_ONE_AT_A_TIME) * self.seconds)


def run(spec: Spec, number: int) -> dict[str, float]:
    """The figures of one run, whose directory is called by `number`; raises BenchError if it's invalid.

    Figures: operations, seconds, rate (per s), p50_ms, p99_ms, generator (its share of one core), others
    (cores that processes outside the run took), cpu_ROLE (seconds per 1000 operations), rss_ROLE (bytes),
    etcd_COUNTER (per operation).
    """
    gc.collect()
    gc.disable()
    try:
        if spec.target.protocol == "etcd":
            return _run_etcd(spec, number)
        return _run_zookeeper(spec, number)
    except (OSError, struct.error, grpc.aio.AioRpcError) as error:
        # Of a server that died or talks nonsense; gRPC's own errors can't travel between processes either.
        raise Stalled(repr(error)) from None
    finally:
        gc.enable()


def _run_zookeeper(spec: Spec, number: int) -> dict[str, float]:
    target, cell = spec.target, spec.cell
    workload = WORKLOADS[cell.workload](b"/bench-%06d" % number, cell.connections, spec.limit)
    with Admin(target.port) as admin:
        prepare(workload, admin)
        streams = [workload.stream(i) for i in range(cell.connections)]
        with connected(target.port, streams) as connections:
            meter = Meter(target)
            timing = drive(connections, cell.depth, spec.seconds)
            figures = meter.figures(timing)
        workload.verify(admin, timing.counts)
        clean_up(workload, admin, timing.counts)
        admin.close_session()
    return figures


def _run_etcd(spec: Spec, number: int) -> dict[str, float]:
    root = b"/bench-%06d/" % number
    return asyncio.run(
        etcd_load.drive(spec.target.port, root, spec.cell, spec.seconds, lambda: Meter(spec.target).figures)
    )


class Meter:
    """Costs of the servers and of this process from now on."""

    def __init__(self, target: Target) -> None:
        self._trees = {role: costs.process_tree(pid) for role, pid in target.processes.items()}
        self._url = target.metrics_url
        self._counters = costs.etcd_counters(self._url) if self._url else {}
        self._cpu = {role: costs.cpu_seconds(pids) for role, pids in self._trees.items()}
        self._busy = costs.busy_seconds()
        self._own_cpu = time.process_time()

    def figures(self, timing: Timing) -> dict[str, float]:
        """The figures of the run that ended now; see `run`."""
        own_cpu = time.process_time() - self._own_cpu
        busy = costs.busy_seconds() - self._busy
        cpu = {role: costs.cpu_seconds(pids) - self._cpu[role] for role, pids in self._trees.items()}
        counters = costs.difference(costs.etcd_counters(self._url), self._counters) if self._url else {}
        operations = sum(timing.counts)
        p50, p99 = summary.percentiles(timing.samples, SHARES)
        return {
            "operations": operations,
            "seconds": timing.seconds,
            "rate": operations / timing.seconds,
            "p50_ms": p50 / 1e6,
            "p99_ms": p99 / 1e6,
            "generator": own_cpu / timing.seconds,
            "others": max(0.0, busy - own_cpu - sum(cpu.values())) / timing.seconds,
            **{f"cpu_{role}": 1000 * spent / operations for role, spent in cpu.items()},
            **{f"rss_{role}": float(costs.resident_bytes(pids)) for role, pids in self._trees.items()},
            **{f"etcd_{name}": count / operations for name, count in counters.items()},
        }
