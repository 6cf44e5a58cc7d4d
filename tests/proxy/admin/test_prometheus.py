"""What a scrape costs, and that its histograms are what Prometheus expects of them."""

from typing import Any, NoReturn

from prometheus_client.parser import text_string_to_metric_families

from codec.constants import OpCode
from proxy.admin.facts import Facts
from proxy.admin.prometheus import Exposition
from proxy.admin.subject import Subject
from proxy.etcd.model import Status
from schema.budgets import Rule
from schema.followed import Lag
from tests.proxy.admin.subjects import LogFacts, subject_of

MS = 1_000_000


def _samples(subject: Subject) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(Exposition(Facts(subject)).text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_histograms_are_cumulative_and_in_seconds() -> None:
    subject = subject_of()
    histogram = subject.latency.by_opcode[OpCode.EXISTS]
    histogram.note(3 * MS, 2)
    histogram.note(40 * MS)
    histogram.note(100_000 * MS)
    samples = _samples(subject)
    buckets = [
        (float(labels["le"]), value)
        for labels, value in samples["zketcd_request_seconds_bucket"]
        if labels["operation"] == "exists"
    ]
    assert buckets == sorted(buckets)
    assert str(buckets[-1]) == "(inf, 4.0)"
    assert next(value for end, value in buckets if end > 0.003) == 2
    assert next(value for end, value in buckets if end > 0.040) == 3
    sums = {labels["operation"]: value for labels, value in samples["zketcd_request_seconds_sum"]}
    assert sums["exists"] == 100.046


def test_entries_are_counted_by_their_requests() -> None:
    subject = subject_of()
    for size in (1, 2, 3, 4, 100):
        subject.log_status().stats.entry_requests.note(size)
    samples = _samples(subject)
    found = {labels["le"]: value for labels, value in samples["zketcd_log_entry_requests_bucket"]}
    assert (found["3"], found["7"], found["127"], found["+Inf"]) == (3, 4, 5, 5)
    assert samples["zketcd_log_entry_requests_sum"] == [({}, 110.0)]


def test_budgets_and_what_they_refused_by_path() -> None:
    subject = subject_of()
    assert "zketcd_budget_refused_total" not in _samples(subject)
    subject.machine.budgets.set(Rule("/a", 5, 0), "own", 0)
    subject.machine.budgets.set(Rule("/b", 0, 100), "own", 0)
    subject.log_status().stats.throttled["/b"] = 7
    subject.log_status().stats.throttled["/removed"] = 1
    samples = _samples(subject)
    assert samples["zketcd_budget_writes"] == [({"path": "/a"}, 5.0)]
    assert samples["zketcd_budget_bytes"] == [({"path": "/b"}, 100.0)]
    refused = {labels["path"]: value for labels, value in samples["zketcd_budget_refused_total"]}
    assert refused == {"/a": 0, "/b": 7, "/removed": 1}


def test_what_etcd_reports_is_missing_until_it_has() -> None:
    assert "zketcd_etcd_db_size_bytes" not in _samples(subject_of())
    status = Status("3.4.23", 1, 1, 4096, 1024, 1, 9, 2, 8, ["NOSPACE"])
    samples = _samples(subject_of(etcd_status=lambda: status))
    assert samples["zketcd_etcd_db_size_bytes"] == [({}, 4096.0)]
    assert samples["zketcd_etcd_alarms"] == [({}, 1.0)]


def _walked(*_: object) -> NoReturn:
    raise AssertionError("a scrape walks the tree")


class _CountingDict(dict[str, Any]):
    """Can be counted and asked for one node, but not gone through."""

    __iter__ = items = values = keys = _walked


def test_a_scrape_does_not_walk_the_tree() -> None:
    subject = subject_of()
    nodes = subject.machine.tree.nodes
    subject.machine.tree.nodes = _CountingDict(nodes)
    assert _samples(subject)["znode_count"] == [({}, len(nodes) + 1)]


def test_a_copy_has_the_metrics_of_its_follower() -> None:
    names = {"zketcd_copy_level_timestamp_seconds", "zketcd_copy_zxid", "zketcd_copy_behind"}
    assert not names & _samples(subject_of()).keys()
    samples = _samples(subject_of(replicated=LogFacts(is_copy=True, lag=Lag(1_500, 7))))
    assert [samples[name] for name in sorted(names)] == [[({}, 7.0)], [({}, 1.5)], [({}, 0.0)]]
