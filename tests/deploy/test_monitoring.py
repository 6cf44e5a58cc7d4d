"""Alert rules, dashboard and docs/monitoring.md name metrics that there are, and the page all of them."""

import json
import re
import urllib.request
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from archive.archiver.stats import Stats
from codec.constants import OpCode
from lab.servers import EtcdServer
from proxy.admin.facts import Facts
from proxy.admin.prometheus import Exposition
from proxy.etcd.model import EtcdUnknown, Status
from proxy.frontend.certificate_ends import Certificate, CertificateEnds
from schema.followed import Lag
from tests.parts import check_part
from tests.proxy.admin.subjects import LogFacts, subject_of

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "deploy" / "monitoring"
# Prometheus's own metric about each target, and words of its language.
OF_PROMETHEUS = {"up"}
OF_ETCD = {"etcd_server_quota_backend_bytes"}
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_IN_QUOTES = re.compile(r'"[^"]*"')
_NO_METRICS = re.compile(r"\b(?:by|on|ignoring|without)\s*\([^)]*\)|\[[^]]*\]|\{[^}]*\}|\boffset \w+")
_WORDS = {"and", "or", "unless", "by", "sum", "rate", "increase", "delta", "changes", "predict_linear"}
_WORDS |= {"histogram_quantile", "scalar", "min", "time", "abs", "e", "last_over_time"}


@pytest.fixture
def metrics() -> list[Metric]:
    """All metrics of a server."""
    subject = subject_of(
        etcd_status=lambda: Status("3.4.23", 1, 1, 4096, 1024, 1, 9, 2, 8, []),
        replicated=LogFacts(standby_silence=1.0, is_copy=True, lag=Lag(1000, 0)),
    )
    subject.latency.by_opcode[OpCode.EXISTS].note(1000)
    subject.log_status().peers.note("b", 0, 0, 0, 9000)
    certificates = subject.process.certificates = CertificateEnds(list)
    certificates.known = [Certificate("--tls-cert", "server.pem", 0, 1)]
    subject.source.etcd_calls.answered("Txn", 1000)
    subject.source.etcd_calls.failed("Txn", EtcdUnknown("gone"))
    subject.process.archive = SimpleNamespace(metrics=Stats().metrics())
    return list(text_string_to_metric_families(Exposition(Facts(subject)).text().decode()))


@pytest.fixture
def families(metrics: list[Metric]) -> dict[str, set[str]]:
    """The names of all samples by the family that has them."""
    return {family.name: {sample.name for sample in family.samples} for family in metrics}


def named(expression: str) -> set[str]:
    """The metrics that an expression of PromQL names."""
    bare = _NO_METRICS.sub(" ", _IN_QUOTES.sub(" ", expression))
    return set(_WORD.findall(re.sub(r"\b\d[\d.e]*\b", " ", bare))) - _WORDS


def rules() -> list[dict[str, Any]]:
    """The rules of alerts.yml."""
    found: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    return found


def _expressions(panel: Any) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def test_the_names_in_an_expression_are_found() -> None:
    assert named('sum by (a, le) (rate(b_total{c="d e"}[5m])) / 2e9 > 0.5 * f and g == 1') == {
        "b_total",
        "f",
        "g",
    }


def test_every_alert_is_about_metrics_that_there_are(families: dict[str, set[str]]) -> None:
    known = set().union(*families.values(), OF_PROMETHEUS, OF_ETCD)
    assert len({rule["alert"] for rule in rules()}) == len(rules()) > 5
    for rule in rules():
        assert rule["labels"]["severity"]
        assert rule["annotations"]["summary"]
        assert named(rule["expr"]) <= known, rule["alert"]
        assert named(rule["expr"])


def test_every_panel_is_about_metrics_that_there_are(families: dict[str, set[str]]) -> None:
    samples = set().union(*families.values())
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for expression in _expressions(panel):
            assert named(expression), panel["title"]
            assert named(expression) <= samples, panel["title"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_the_page_has_each_metric_and_what_its_help_says(metrics: list[Metric]) -> None:
    lines = (
        f"* {', '.join(f'`{each.name}`' for each in alike)}: {text}"
        for text, alike in groupby(metrics, lambda each: each.documentation)
    )
    check_part("docs/monitoring.md", "metrics", lines)


def test_the_page_has_a_section_for_each_alert() -> None:
    page = (REPOSITORY / "docs" / "monitoring.md").read_text()
    sections = re.findall(r"^### (\w+)$", page[page.index("## Alerts") :], re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules()]


def test_each_alert_links_to_its_section_of_the_page() -> None:
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"docs/monitoring.md#{rule['alert'].lower()}"


def test_etcd_has_the_metrics_that_the_alerts_take_from_it(etcd_server: EtcdServer) -> None:
    page = urllib.request.urlopen(f"{etcd_server.endpoint}/metrics", timeout=60).read().decode()
    assert {family.name for family in text_string_to_metric_families(page)} >= OF_ETCD
