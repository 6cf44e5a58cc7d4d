"""/metrics: what `facts` and the server's parts have, in Prometheus's text format, gathered at each scrape.

ZooKeeper's names (those of its PrometheusMetricsProvider, times in milliseconds) where they mean the same;
ours begin with `zketcd_` and are in seconds and bytes. docs/operating.md lists them.
Nothing here walks the tree.
"""

import os
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.registry import Collector

from codec.constants import KeeperOpCode, OpCode
from proxy.admin.facts import VERSION, Facts
from proxy.latency import MILLISECOND, Histogram

if TYPE_CHECKING:
    from proxy.server import Server

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECOND = 1_000_000_000
# Buckets of times that are told: four times as long each, from 4 microseconds to 17 seconds.
_TIME_PLACES = range(12, 36, 2)
_SIZE_PLACES = range(13)
_QUANTILES = (0.5, 0.9, 0.99)
_NAMES: dict[int, str] = {opcode: opcode.name.lower() for opcode in (*OpCode, *KeeperOpCode)}
# Gauges of ZooKeeperServer.registerMetrics, by the help that each gets here.
_GAUGES = {
    "avg_latency": "mean time of a request in ms since the last srst",
    "max_latency": "longest time of a request in ms since the last srst",
    "min_latency": "shortest time of a request in ms since the last srst",
    "packets_received": "requests since the last srst",
    "packets_sent": "replies and events since the last srst",
    "num_alive_connections": "connections of clients",
    "outstanding_requests": "writes without an answer so far",
    "uptime": "ms since the start",
    "znode_count": "nodes of the tree, the root twice as in ZooKeeper",
    "watch_count": "watches of this proxy's clients",
    "ephemerals_count": "ephemeral nodes of all sessions",
    "approximate_data_size": "bytes of all data and paths",
    "global_sessions": "sessions of all proxies",
    "local_sessions": "always 0",
    "open_file_descriptor_count": "open files",
    "max_file_descriptor_count": "how many there may be",
    "connection_drop_probability": "always 0",
    "auth_failed_count": "addauth packets that proved nothing",
}
# Counters of ServerMetrics: ZooKeeper's provider gives them no suffix either.
_COUNTERS = {
    "connection_rejected": "connections over maxClientCnxns since the last srst",
    "connection_request_count": "connect requests since the last srst",
    "sessionless_connections_expired": "connections without a session that were closed, since the last srst",
}


class Exposition:
    """The metrics of one server."""

    def __init__(self, facts: Facts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_ServerCollector(facts))

    def text(self) -> bytes:
        """All of them now."""
        return generate_latest(self._registry)


class _ServerCollector(Collector):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def describe(self) -> list[Metric]:
        """Nothing: what there is shows at a scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Everything, as of now."""
        facts, server = self._facts, self._facts.server
        yield from _of_zookeeper(facts, server)
        yield from _of_process(server)
        yield from _of_server(facts, server)
        yield from _of_writes(server)
        yield from _of_etcd(facts, server)


def _of_zookeeper(facts: Facts, server: "Server") -> Iterator[Metric]:
    values = facts.monitor()
    for name, text in _GAUGES.items():
        yield GaugeMetricFamily(name, text, float(values[name]))
    for name, text in _COUNTERS.items():
        yield UnknownMetricFamily(name, text, float(values[name]))
    for name, updates in (("readlatency", False), ("updatelatency", True)):
        histogram = server.latency.total(updates=updates)
        summary = SummaryMetricFamily(
            name, "ms from a request to its answer, by the ends of doubling buckets"
        )
        for quantile in _QUANTILES:
            value = histogram.quantile(quantile) / MILLISECOND
            summary.add_sample(name, {"quantile": str(quantile)}, value)
        summary.add_metric([], histogram.count, histogram.nanos / MILLISECOND)
        yield summary


def _of_process(server: "Server") -> Iterator[Metric]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield CounterMetricFamily("process_cpu_seconds", "CPU time", used.ru_utime + used.ru_stime)
    yield GaugeMetricFamily("process_resident_memory_bytes", "memory in use", _resident_bytes())
    yield GaugeMetricFamily("process_start_time_seconds", "since 1970", server.started)


def _of_server(facts: Facts, server: "Server") -> Iterator[Metric]:
    yield GaugeMetricFamily("zketcd_ready", "whether clients are served and etcd is in touch", facts.ready)
    info = GaugeMetricFamily("zketcd_info", "what runs", labels=["version"])
    info.add_metric([VERSION.partition(",")[0]], 1)
    yield info
    yield GaugeMetricFamily("zketcd_sessions", "sessions that this proxy holds", len(server.sessions))
    counters = server.counters
    yield CounterMetricFamily(
        "zketcd_sessions_expired", "sessions of silent clients ended", counters.sessions_expired
    )
    yield GaugeMetricFamily("zketcd_watches", "watches of this proxy's clients", server.watches.total())
    yield CounterMetricFamily("zketcd_watch_notifications", "watch events sent", counters.notifications)
    requests = HistogramMetricFamily(
        "zketcd_request_seconds", "from a request's receipt to its answer", labels=["operation"]
    )
    for opcode, histogram in server.latency.by_opcode.items():
        if histogram.count:
            _add_times(requests, [_NAMES[opcode]], histogram)
    yield requests


def _of_writes(server: "Server") -> Iterator[Metric]:
    committer = server.committer
    yield CounterMetricFamily("zketcd_txns", "Txns sent to commit writes", committer.txns)
    yield CounterMetricFamily("zketcd_committed_requests", "requests that Txns answered", committer.committed)
    yield CounterMetricFamily(
        "zketcd_conflicts", "Txns of which a part lost a race to another proxy", committer.conflicts
    )
    yield CounterMetricFamily("zketcd_unknown_outcomes", "Txns whose answer was lost", committer.unknown)
    yield CounterMetricFamily("zketcd_refused_txns", "Txns that etcd refused for certain", committer.refused)
    sizes = HistogramMetricFamily("zketcd_batch_requests", "requests that shared a Txn")
    counts = committer.batch_sizes.buckets
    # Bucket n of the histogram holds what is below 2 ** n.
    cumulative = [(str((1 << place) - 1), sum(counts[: place + 1])) for place in _SIZE_PLACES]
    sizes.add_metric([], [*cumulative, ("+Inf", committer.batch_sizes.count)], committer.batch_sizes.nanos)
    yield sizes


def _of_etcd(facts: Facts, server: "Server") -> Iterator[Metric]:
    revisions, seconds = server.committer.lag()
    yield GaugeMetricFamily(
        "zketcd_mirror_lag_revisions", "behind what etcd has answered to this proxy", revisions
    )
    yield GaugeMetricFamily("zketcd_mirror_lag_seconds", "for how long it has been so", seconds)
    yield GaugeMetricFamily("zketcd_mirror_revision", "etcd's revision that the tree shows", facts.revision)
    yield CounterMetricFamily("zketcd_mirror_reloads", "times the tree was read again", server.feed.reloads)
    yield GaugeMetricFamily("zketcd_proxies", "proxies that serve this tree", len(server.mirror.proxies))
    yield GaugeMetricFamily("zketcd_etcd_in_touch", "whether etcd was heard of lately", facts.in_touch)
    yield GaugeMetricFamily("zketcd_etcd_silence_seconds", "since etcd was last heard of", server.silence)
    yield GaugeMetricFamily(
        "zketcd_etcd_no_space",
        "whether the last write was refused for want of space",
        server.committer.is_full,
    )
    status = facts.etcd
    if status is not None:
        yield GaugeMetricFamily("zketcd_etcd_db_size_bytes", "size of etcd's database", status.db_size)
        yield GaugeMetricFamily("zketcd_etcd_db_in_use_bytes", "that it needs", status.db_size_in_use)
        yield GaugeMetricFamily("zketcd_etcd_revision", "etcd's revision some seconds ago", status.revision)
        yield GaugeMetricFamily("zketcd_etcd_alarms", "alarms and other errors it tells", len(status.errors))
    calls = HistogramMetricFamily("zketcd_etcd_call_seconds", "answered calls to etcd", labels=["method"])
    for method, histogram in server.etcd_calls.times.items():
        _add_times(calls, [method], histogram)
    yield calls
    failures = CounterMetricFamily(
        "zketcd_etcd_failures", "calls to etcd that failed", labels=["method", "kind"]
    )
    for (method, kind), count in server.etcd_calls.failures.items():
        failures.add_metric([method, kind], count)
    yield failures


def _add_times(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    counts = histogram.buckets
    cumulative = [(str((1 << place) / _SECOND), sum(counts[: place + 1])) for place in _TIME_PLACES]
    family.add_metric(labels, [*cumulative, ("+Inf", sum(counts))], histogram.nanos / _SECOND)


def _resident_bytes() -> int:
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(descriptor, 100).split()[1]) * resource.getpagesize()
    finally:
        os.close(descriptor)
