"""/metrics: the facts of a server in Prometheus's text format, read at each scrape.

ZooKeeper's names (those of its PrometheusMetricsProvider, times in milliseconds) where they mean the same;
ours begin with `zketcd_` and are in seconds and bytes. docs/monitoring.md lists them.
Nothing here walks the tree.
"""

import os
import resource
from collections.abc import Iterator

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

from codec.operation_names import constant_name
from proxy.admin.facts import OPERATIONS, Facts
from proxy.admin.subject import ArchiveFacts, Subject
from proxy.frontend.certificate_ends import CertificateEnds
from proxy.log.status import LogStatus
from proxy.state.watches import COMPARED
from proxy.support import logs
from proxy.support.latency import MILLISECOND, Histogram
from proxy.support.metrics import PlainMetric, of_copy
from proxy.version import RELEASE

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECOND = 1_000_000_000
# Upper ends of the buckets of times: each is four times the one before, from 4 microseconds to 17 seconds.
_TIME_PLACES = range(12, 36, 2)
_SIZE_PLACES = range(13)
_BUSIEST = 10  # paths, and clients, that have values of their own
_QUANTILES = (0.5, 0.9, 0.99)
# Gauges of ZooKeeperServer.registerMetrics, by the help that each gets here.
_GAUGES = {
    "avg_latency": "mean time of a request in ms since the last srst",
    "max_latency": "longest time of a request in ms since the last srst",
    "min_latency": "shortest time of a request in ms since the last srst",
    "packets_received": "requests since the last srst",
    "packets_sent": "replies and events since the last srst",
    "num_alive_connections": "connections of clients",
    "outstanding_requests": "requests in the log without an answer so far",
    "uptime": "ms since the start",
    "znode_count": "nodes of the tree, the root twice as in ZooKeeper",
    "watch_count": "watches of this proxy's clients: a path that one watches in two ways counts once, but"
    f" twice if more than {COMPARED:,} watches are not of the most frequent kind",
    "ephemerals_count": "ephemeral nodes of all sessions",
    "approximate_data_size": "bytes of all data and paths",
    "global_sessions": "sessions of all proxies",
    "local_sessions": "always 0",
    "open_file_descriptor_count": "open files",
    "max_file_descriptor_count": "open files that the process may have",
    "connection_drop_probability": "always 0: no connection is dropped at random",
    "auth_failed_count": "authentications that failed: by addauth, SASL, or for a command of the admin port",
}
# Counters of ServerMetrics: ZooKeeper's provider gives them no suffix either.
_COUNTERS = {
    "connection_rejected": "connections refused because of a limit since the last srst",
    "connection_request_count": "connect requests since the last srst",
    "sessionless_connections_expired": "connections closed after 20 s without a session, since the last srst",
    "op_count_total": "answered requests since the last srst, without writes that failed",
    **dict.fromkeys(
        (f"op_count_{name}" for name in OPERATIONS),
        "of these, by operation, in ZooKeeper 3.10's names; Keeper's requests count with ZooKeeper's",
    ),
    "ttl_node_created_count": "TTL nodes created by all proxies since this one's start or the last srst",
    "ttl_node_deleted_count": "TTL nodes deleted by all proxies since this one's start or the last srst",
}


class Exposition(Collector):
    """The metrics of one server."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """The metrics as they are now, in UTF-8."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing: the metrics are known at a scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Everything, as of now."""
        facts, subject = self._facts, self._facts.subject
        yield from _of_zookeeper(facts, subject)
        yield from _of_process(subject)
        yield from _of_server(facts, subject)
        yield from _of_log(subject.log_status())
        yield from _of_copy(subject)
        yield from _of_messages()
        yield from _of_budgets(subject)
        yield from _of_busiest(subject)
        yield from _of_snapshots(subject)
        yield from _of_etcd(subject)
        yield from _of_archive(subject.process.archive)
        yield from _of_feeds(subject)
        yield from _of_certificates(subject.process.certificates)


def _of_zookeeper(facts: Facts, subject: Subject) -> Iterator[Metric]:
    values = facts.monitor()
    for name, text in _GAUGES.items():
        yield GaugeMetricFamily(name, text, float(values[name]))
    for name, text in _COUNTERS.items():
        yield UnknownMetricFamily(name, text, float(values[name]))
    for name, text, histogram in (
        ("readlatency", "ms from a read to its answer", subject.latency.total(updates=False)),
        ("updatelatency", "ms from a write to its answer", subject.latency.total(updates=True)),
        ("jvm_pause_time_ms", "ms by which the event loop was late", subject.process.pauses),
    ):
        summary = SummaryMetricFamily(name, text)
        for quantile in _QUANTILES:
            value = histogram.quantile(quantile) / MILLISECOND
            summary.add_sample(name, {"quantile": str(quantile)}, value)
        summary.add_metric([], histogram.count, histogram.total / MILLISECOND)
        yield summary


def _of_process(subject: Subject) -> Iterator[Metric]:
    delays = HistogramMetricFamily(
        "zketcd_loop_delay_seconds",
        "how late the event loop was, ten times a second: requests wait while the proxy or its host is busy",
    )
    _add_times(delays, [], subject.process.pauses)
    yield delays
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield CounterMetricFamily("process_cpu_seconds", "CPU time", used.ru_utime + used.ru_stime)
    yield GaugeMetricFamily("process_resident_memory_bytes", "memory in use", _resident_bytes())
    yield GaugeMetricFamily("process_start_time_seconds", "since 1970", subject.started)


def _of_server(facts: Facts, subject: Subject) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "zketcd_searches_refused",
        "removeRecursive of all clients that were refused since such requests had searched too much in vain",
        subject.machine.transaction.searches_refused,
    )
    yield GaugeMetricFamily("zketcd_ready", "whether /ready answers 200", facts.ready)
    info = GaugeMetricFamily("zketcd_info", "always 1; the release", labels=["version"])
    info.add_metric([RELEASE], 1)
    yield info
    yield GaugeMetricFamily("zketcd_sessions", "sessions attached to this proxy", len(subject.sessions))
    counters = subject.counters
    yield CounterMetricFamily(
        "zketcd_sessions_expired",
        "sessions that this proxy ended because their clients were silent or their proxy died",
        counters.sessions_expired,
    )
    yield GaugeMetricFamily(
        "zketcd_max_client_connections",
        "clients that may be connected, by --max-connections and the limit of open files",
        subject.connections.limits.most,
    )
    yield GaugeMetricFamily("zketcd_watches", "watches of this proxy's clients", subject.watches.total())
    yield CounterMetricFamily("zketcd_watch_notifications", "watch events sent", counters.notifications)
    requests = HistogramMetricFamily(
        "zketcd_request_seconds",
        "from a request's receipt to its answer; reads that arrived together have the time of all of them",
        labels=["operation"],
    )
    for opcode, histogram in subject.latency.by_opcode.items():
        if histogram.count:
            _add_times(requests, [constant_name(opcode).lower()], histogram)
    yield requests


def _of_log(log: LogStatus) -> Iterator[Metric]:
    yield from map(_family, log.stats.metrics())
    yield _counts("zketcd_log_entry_requests", "requests of each appended entry", log.stats.entry_requests)
    yield GaugeMetricFamily("zketcd_log_txns_in_flight", "appends that etcd has not answered", log.unanswered)
    yield GaugeMetricFamily("zketcd_log_position", "etcd revision of the newest applied entry", log.position)
    yield GaugeMetricFamily(
        "zketcd_log_staleness_seconds",
        "time since this proxy had last applied everything that was in etcd: normally 1 or less, above"
        " --max-staleness its clients wait",
        log.age,
    )
    if log.standby_silence is not None:
        yield GaugeMetricFamily(
            "zketcd_standby_silence_seconds",
            "time since the standby's follower was heard, if ever: normally 4 or less, above --standby-within"
            " the proxy serves no client",
            log.standby_silence,
        )
    yield GaugeMetricFamily(
        "zketcd_clock_skew_seconds",
        "largest difference between this host's clock and the clocks in other proxies' entries",
        log.peers.clock_skew,
    )
    clocks = GaugeMetricFamily(
        "zketcd_proxy_clock_ahead_seconds",
        "by how much the clock in another proxy's entries is ahead of this host's; negative: behind",
        labels=["proxy", "host"],
    )
    for name, peer in log.peers:
        proxy = log.living.get(name)
        clocks.add_metric([name, proxy.value.home.host if proxy else ""], -peer.difference / 1000)
    yield clocks
    yield GaugeMetricFamily("zketcd_proxies", "living proxies of this tree", len(log.living))
    homes = GaugeMetricFamily(
        "zketcd_proxy_info",
        "1 for each living proxy: its incarnation, host, addresses and release",
        labels=["proxy", "host", "clients", "admin", "version", "peers"],
    )
    started = GaugeMetricFamily(
        "zketcd_proxy_start_time_seconds", "when each living proxy started, since 1970", labels=["proxy"]
    )
    for proxy in log.living:
        home, version, peers = proxy.value.home, proxy.value.version, proxy.value.peer_port.address
        homes.add_metric([proxy.incarnation, home.host, home.listen, home.admin, version, peers], 1)
        if home.started:
            started.add_metric([proxy.incarnation], home.started / 1000)
    yield homes
    yield started
    combiner = GaugeMetricFamily(
        "zketcd_log_combiner",
        "always 1; the proxy that appends this one's entries, and why it does so itself",
        labels=["proxy", "why"],
    )
    combiner.add_metric(log.combined, 1)
    yield combiner


def _of_copy(subject: Subject) -> Iterator[Metric]:
    if subject.contact.is_copy:
        yield from map(_family, of_copy(subject.machine.zxid, subject.log_status().lag))


def _of_messages() -> Iterator[Metric]:
    yield CounterMetricFamily(
        "zketcd_log_lines_dropped",
        "lines of messages and of the audit log that were not written: they came too fast, or it failed",
        logs.dropped(),
    )


def _of_budgets(subject: Subject) -> Iterator[Metric]:
    rules = subject.machine.budgets.rules
    throttled = subject.log_status().stats.throttled
    writes = GaugeMetricFamily(
        "zketcd_budget_writes", "writes that a budget allows a second", labels=["path"]
    )
    size = GaugeMetricFamily("zketcd_budget_bytes", "bytes that a budget allows a second", labels=["path"])
    refused = CounterMetricFamily(
        "zketcd_budget_refused",
        "requests of this proxy's clients refused with THROTTLEDOP, by the budget's path",
        labels=["path"],
    )
    for rule in rules:
        if rule.writes:
            writes.add_metric([rule.path], rule.writes)
        if rule.bytes:
            size.add_metric([rule.path], rule.bytes)
    for path in sorted({*throttled, *(rule.path for rule in rules)}):
        refused.add_metric([path], throttled[path])
    yield from (writes, size, refused)


def _of_busiest(subject: Subject) -> Iterator[Metric]:
    sampling = subject.sampling
    if not sampling.options.sample:
        return
    for name, text, label, found in (
        ("path", "by path prefix", "path", sampling.paths(_BUSIEST)),
        ("client", "by the client's address", "client", sampling.clients(_BUSIEST)),
    ):
        family = GaugeMetricFamily(
            f"zketcd_top_{name}_requests_per_second",
            f"sampled requests of this proxy's clients, {text}: the {_BUSIEST} busiest",
            labels=[label, "kind"],
        )
        for value, rates in found:
            family.add_metric([value, "read"], rates.reads)
            family.add_metric([value, "write"], rates.writes)
        yield family


def _of_archive(archive: ArchiveFacts | None) -> Iterator[Metric]:
    if archive is not None:
        yield from map(_family, archive.metrics)


def _family(metric: PlainMetric) -> Metric:
    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return made(metric.name, metric.help, metric.value)


def _of_feeds(subject: Subject) -> Iterator[Metric]:
    feeds = subject.feeds
    yield GaugeMetricFamily("zketcd_feeds", "readers of /changes", len(feeds.open))
    yield GaugeMetricFamily(
        "zketcd_feed_behind", "zxids that the slowest of them was not sent yet", feeds.behind
    )
    yield CounterMetricFamily("zketcd_feed_changes", "changes sent to readers of /changes", feeds.sent)
    yield CounterMetricFamily(
        "zketcd_feeds_refused",
        "readers of /changes that were sent away, since there were too many",
        feeds.refused,
    )


def _of_certificates(certificates: CertificateEnds | None) -> Iterator[Metric]:
    ends = GaugeMetricFamily(
        "zketcd_certificate_end_seconds",
        "when the certificate of an option's file ends, since 1970: of several, the first",
        labels=["which"],
    )
    for certificate in () if certificates is None else certificates.known:
        ends.add_metric([certificate.option], certificate.ends)
    yield ends


def _of_snapshots(subject: Subject) -> Iterator[Metric]:
    snapshots, record = subject.source.snapshots(), subject.log_status().record
    stats = snapshots.stats
    current = record.current if record else None
    age = subject.clock.monotonic() - stats.written_at if stats.written_at else 0.0
    for name, text, value in (
        ("zketcd_snapshot_bytes", "size of the current snapshot; 0: none", current.bytes if current else 0),
        (
            "zketcd_snapshot_age_seconds",
            "time since this proxy saw the current snapshot come; 0: it was there before the proxy",
            age,
        ),
        (
            "zketcd_snapshot_overdue_seconds",
            "time for which a snapshot has been due; 0: none is",
            snapshots.overdue,
        ),
        (
            "zketcd_snapshot_duration_seconds",
            "time that the last snapshot of this proxy took",
            stats.last_seconds,
        ),
        (
            "zketcd_log_since_snapshot_bytes",
            "bytes of the log since the current snapshot, which a start has to replay",
            snapshots.log_bytes,
        ),
        (
            "zketcd_log_since_snapshot_requests",
            "requests in the log since the current snapshot, as --snapshot-log-requests counts them",
            snapshots.log_requests,
        ),
    ):
        yield GaugeMetricFamily(name, text, value)
    yield CounterMetricFamily("zketcd_snapshots", "snapshots that this proxy wrote", stats.written)
    failures = "snapshots that this proxy could not finish"
    yield CounterMetricFamily("zketcd_snapshot_failures", failures, stats.failed)


def _of_etcd(subject: Subject) -> Iterator[Metric]:
    log, contact = subject.log_status(), subject.contact
    pressure = log.pressure
    refusing = "whether requests that make the tree grow are refused, to keep the reserve of etcd's quota"
    last = (
        "whether all writes are refused but deletes and those that make the tree smaller, to keep room for"
        " one snapshot"
    )
    full = "whether etcd's quota is used up: it refused the last append, or has raised the alarm"
    status = subject.source.etcd_status()
    alarms = () if status is None else status.errors or ()
    gauges: list[tuple[str, str, float]] = [
        (
            "zketcd_etcd_in_touch",
            "whether etcd answered in the last 3 s and this proxy is not too far behind",
            contact.in_touch,
        ),
        ("zketcd_etcd_silence_seconds", "since etcd last answered", contact.silence),
        ("zketcd_etcd_no_space", full, log.is_full or any("NOSPACE" in each for each in alarms)),
        ("zketcd_etcd_nearly_full", refusing, pressure is not None),
        ("zketcd_etcd_last_room", last, pressure is not None and pressure.is_last),
    ]
    if status is not None:
        gauges += [
            ("zketcd_etcd_db_size_bytes", "size of etcd's database some seconds ago", status.db_size),
            ("zketcd_etcd_db_in_use_bytes", "part of the database that is in use", status.db_size_in_use),
            ("zketcd_etcd_revision", "etcd's revision some seconds ago", status.revision),
        ]
        if status.errors is not None:
            reported = "alarms and other errors that etcd reports; missing if it reports them to root alone"
            gauges.append(("zketcd_etcd_alarms", reported, len(status.errors)))
    for name, text, value in gauges:
        yield GaugeMetricFamily(name, text, value)
    calls = HistogramMetricFamily("zketcd_etcd_call_seconds", "answered calls to etcd", labels=["method"])
    for method, histogram in subject.source.etcd_calls.times.items():
        _add_times(calls, [method], histogram)
    yield calls
    failures = CounterMetricFamily(
        "zketcd_etcd_failures",
        "calls to etcd that failed: refused, unknown, no space",
        labels=["method", "kind"],
    )
    for (method, kind), count in subject.source.etcd_calls.failures.items():
        failures.add_metric([method, kind], count)
    yield failures


def _counts(name: str, text: str, histogram: Histogram) -> HistogramMetricFamily:
    """A histogram of counts: bucket n of `histogram` holds what is below 2 ** n."""
    family = HistogramMetricFamily(name, text)
    buckets = histogram.buckets
    cumulative = [(str((1 << place) - 1), sum(buckets[: place + 1])) for place in _SIZE_PLACES]
    family.add_metric([], [*cumulative, ("+Inf", histogram.count)], histogram.total)
    return family


def _add_times(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    counts = histogram.buckets
    cumulative = [(str((1 << place) / _SECOND), sum(counts[: place + 1])) for place in _TIME_PLACES]
    family.add_metric(labels, [*cumulative, ("+Inf", sum(counts))], histogram.total / _SECOND)


def _resident_bytes() -> int:
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(descriptor, 100).split()[1]) * resource.getpagesize()
    finally:
        os.close(descriptor)
