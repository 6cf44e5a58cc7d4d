"""Incidents as series of metrics: each fires its alerts, and no others.

The names and labels of the series are those of a real exposition. promtool evaluates the rules.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from archive.archiver.stats import Stats
from lab.servers.process import find_program
from proxy.admin.facts import Facts
from proxy.admin.prometheus import Exposition
from proxy.admin.subject import ProcessFacts
from proxy.etcd.model import Status
from proxy.frontend.certificate_ends import Certificate, CertificateEnds
from tests.deploy.record import INCIDENTS as RECORDED
from tests.deploy.series import EVERY, MEMBERS, PROXIES, RULES, Sample, notation, of_rules, recording
from tests.deploy.test_monitoring import rules
from tests.proxy.admin.subjects import LogFacts, subject_of

pytestmark = pytest.mark.real

_MINUTE = 60
_BEGIN = 60 * _MINUTE  # of an incident
_MIB = 1 << 20
_OF_ARCHIVERS = {each.name for each in Stats().metrics()}
_OF_COPIES = {"zketcd_copy_level_timestamp_seconds", "zketcd_copy_zxid"}
_OF_OPTIONS = {"zketcd_certificate_end_seconds", "zketcd_standby_silence_seconds"}

#: A metric's value after so many seconds; None for none.
Series = Callable[[int], float | None]


# -- how values go by ----------------------------------------------------------------------------------------


def always(value: float) -> Series:
    """The same at all times."""
    return lambda _at: value


def then(before: float | None, after: float | None, lasts: int = 7 * 24 * 3600) -> Series:
    """Another value while the incident lasts."""
    return lambda at: after if _BEGIN <= at < _BEGIN + lasts else before


def grows(before: float, after: float, begin: float = 0.0) -> Series:
    """Growth each second, before the incident and from its begin on."""
    return lambda at: begin + before * min(at, _BEGIN) + after * max(0, at - _BEGIN)


def counts(every: int) -> Series:
    """A counter of what happens now and then, from the begin of the incident on."""
    return lambda at: max(0, at - _BEGIN) // every


def since() -> Series:
    """The seconds since the incident began."""
    return lambda at: max(0, at - _BEGIN)


# -- a healthy cluster ---------------------------------------------------------------------------------------

#: Gauges of a healthy proxy that are not as a test's subject has them, and counters that grow.
_HEALTHY: dict[str, Series] = {
    "zketcd_ready": always(1),
    "zketcd_etcd_db_size_bytes": lambda at: (200 + at % 300 / 30) * _MIB,  # compacted each five minutes
    "global_sessions": always(300),
    "zketcd_sessions_expired_total": lambda at: at // 100,
    "zketcd_incarnations_total": always(1),
    "open_file_descriptor_count": always(400),
    "max_file_descriptor_count": always(65_536),
    "zketcd_log_staleness_seconds": always(0.4),
    "zketcd_standby_silence_seconds": always(2),
    "zketcd_proxy_clock_ahead_seconds": always(-0.02),
    "zketcd_certificate_end_seconds": always(90 * 86_400),
    "zketcd_archive_complete_timestamp_seconds": lambda at: max(0, at - 2),
}
#: Proxies have them of a tree that is a copy; a follower writes them on its host, also of a directory.
_COPIES: dict[str, Series] = {
    "zketcd_copy_level_timestamp_seconds": lambda at: max(0, at - 1),
    "zketcd_copy_zxid": lambda _at: None,
}
_ETCD: dict[str, Series] = {"up": always(1), "etcd_server_quota_backend_bytes": always(8 << 30)}
_BUCKETS = {"zketcd_loop_delay_seconds_bucket", "zketcd_etcd_call_seconds_bucket"}


def times(seconds: float, later: float | None = None) -> Callable[[Sample], Series]:
    """For a histogram: how long its events take, before and during the incident."""

    def of(sample: Sample) -> Series:
        end = float(dict(sample.labels)["le"])
        return grows(*(10 * (end >= each) for each in (seconds, seconds if later is None else later)))

    return of


def healthy() -> dict[Sample, Series]:
    """What the rules are about, of three proxies and three members of etcd to which nothing happens."""
    wanted = of_rules()
    certificates = CertificateEnds(list)
    certificates.known = [Certificate("--tls-cert", "server.pem", 0, 1)]
    subject = subject_of(
        replicated=LogFacts(standby_silence=2),
        etcd_status=lambda: Status("3.5.30", 1, 1, 0, 0, 1, 9, 2, 8, []),
        process=ProcessFacts(
            archive=SimpleNamespace(metrics=[each for each in Stats().metrics() if each[0] in wanted]),
            certificates=certificates,
        ),
    )
    subject.source.etcd_calls.answered("Txn", 1000)
    subject.log_status().peers.note("b", 0, 0, 0, 0)
    page = Exposition(Facts(subject)).text().decode()
    found: dict[Sample, Series] = {}
    for family in text_string_to_metric_families(page):
        for each in family.samples:
            for proxy in PROXIES:
                sample = Sample(each.name, proxy, frozenset(each.labels.items()))
                if each.name in _BUCKETS:
                    found[sample] = times(0.001)(sample)
                elif each.name in wanted:
                    found[sample] = _HEALTHY.get(each.name, always(each.value))
    for proxy in PROXIES:
        found[Sample("up", proxy)] = always(1)
        for name, series in _COPIES.items():
            found[Sample(name, proxy)] = series
    for member in MEMBERS:
        for name, series in _ETCD.items():
            found[Sample(name, member)] = series
    assert {sample.name for sample in found} == wanted
    return found


# -- incidents: what changes, at one proxy or member, or at all of them --------------------------------------

_Change = Series | Callable[[Sample], Series]


class Incident(NamedTuple):
    """What changes at some targets, by the metric's name, and what fires."""

    alerts: set[str]
    changes: Mapping[str, _Change]
    where: Iterable[str] = PROXIES[:1]
    minutes: int = 45  # for which it lasts


def _gone(at: int) -> bool:
    """Whether a proxy that crashes every 45 s is not there when it is scraped."""
    return at >= _BEGIN and at % 45 == 0


def _crashes(at: int) -> float | None:
    return None if _gone(at) else 1e9 + max(0, at - _BEGIN) // 45 * 45


_INCIDENTS = {
    "nothing for a week": Incident(set(), {}),
    "a proxy crashes every 45 s": Incident(
        {"ZketcdCrashLoop", "ZketcdRestarted"},
        {
            "process_start_time_seconds": _crashes,
            "up": lambda at: float(not _gone(at)),
            "zketcd_ready": lambda at: None if _gone(at) else float(at < _BEGIN or at % 45 == 30),
        },
    ),
    "a proxy is killed and comes back": Incident(
        {"ZketcdRestarted"}, {"process_start_time_seconds": then(1e9, 2e9)}
    ),
    "a proxy is killed and stays away": Incident(
        {"ZketcdDown"},
        {name: then(1, None) for name in ("zketcd_ready", "process_start_time_seconds")} | {"up": then(1, 0)},
    ),
    "a proxy is not ready": Incident({"ZketcdNotReady"}, {"zketcd_ready": then(1, 0)}),
    "a member of etcd is down": Incident(
        {"ZketcdEtcdMemberDown"},
        {"up": then(1, 0), "etcd_server_quota_backend_bytes": then(8 << 30, None)},
        MEMBERS[:1],
    ),
    "etcd's leader is killed and comes back": Incident(
        set(), {"zketcd_etcd_silence_seconds": then(0, 1.8, EVERY)}
    ),
    "etcd does not answer": Incident(
        {"ZketcdEtcdSilent", "ZketcdStale", "ZketcdNotReady"},
        {
            "zketcd_etcd_silence_seconds": since(),
            "zketcd_log_staleness_seconds": since(),
            "zketcd_ready": then(1, 0),
        },
        PROXIES,
    ),
    "etcd is full": Incident(
        {"ZketcdEtcdNoSpace"}, {"zketcd_etcd_no_space": then(0, 1), "zketcd_etcd_alarms": then(0, 1)}, PROXIES
    ),
    "etcd is nearly full": Incident(
        {"ZketcdEtcdNearlyFull"}, {"zketcd_etcd_nearly_full": then(0, 1)}, PROXIES
    ),
    "etcd has room for one snapshot": Incident(
        {"ZketcdEtcdNearlyFull", "ZketcdEtcdLastRoom"},
        {"zketcd_etcd_nearly_full": then(0, 1), "zketcd_etcd_last_room": then(0, 1)},
        PROXIES,
    ),
    "etcd does not compact": Incident(
        {"ZketcdEtcdGrows"},
        {"zketcd_etcd_db_size_bytes": grows(0, 1.5 * _MIB, 200 * _MIB)},
        PROXIES,
        minutes=59,
    ),
    "a proxy is behind": Incident({"ZketcdStale"}, {"zketcd_log_staleness_seconds": then(0.4, 5)}),
    "a proxy lacks CPU": Incident({"ZketcdLoopSlow"}, {"zketcd_loop_delay_seconds_bucket": times(0.001, 1)}),
    "a proxy loads the tree again and again": Incident(
        {"ZketcdReloads"}, {"zketcd_log_reloads_total": counts(10 * _MINUTE)}
    ),
    "a proxy's state is wrong": Incident(
        {"ZketcdDigestsDisagree"}, {"zketcd_log_digest_disagreements_total": then(0, 1)}
    ),
    "a proxy loads another state than the log's digests say": Incident(
        {"ZketcdDigestsDisagree"}, {"zketcd_log_digest_disagreements_total": then(None, 1)}
    ),
    "no snapshot is written": Incident(
        {"ZketcdSnapshotOld", "ZketcdSnapshotFails"},
        {"zketcd_snapshot_overdue_seconds": since(), "zketcd_snapshot_failures_total": counts(5 * _MINUTE)},
    ),
    "the archiver is killed, or its store is away": Incident(
        {"ZketcdArchiveBehind"}, {"zketcd_archive_complete_timestamp_seconds": lambda at: min(at, _BEGIN)}
    ),
    "the log is truncated before it is archived": Incident(
        {"ZketcdArchiveGap"}, {"zketcd_archive_gap_timestamp_seconds": then(0, _BEGIN)}
    ),
    "a copy's source is away": Incident(
        {"ZketcdCopyBehind"}, {"zketcd_copy_level_timestamp_seconds": lambda at: min(at, _BEGIN)}
    ),
    "the proxies of a copy wait for the cut-over": Incident(
        set(), {"zketcd_ready": then(1, 0), "zketcd_copy_zxid": then(None, 5)}, PROXIES
    ),
    "a source loses its standby": Incident(
        {"ZketcdStandbySilent"}, {"zketcd_standby_silence_seconds": since()}, PROXIES
    ),
    "etcd's answers get lost": Incident(
        {"ZketcdAppendsResent"}, {"zketcd_log_entries_resent_total": grows(0, 0.5)}
    ),
    "a proxy stalls again and again": Incident(
        {"ZketcdIncarnations"}, {"zketcd_incarnations_total": counts(5 * _MINUTE)}
    ),
    "etcd's disk is slow": Incident(
        {"ZketcdWritesSlow"}, {"zketcd_etcd_call_seconds_bucket": times(0.001, 1)}, PROXIES
    ),
    "a clock jumps an hour": Incident(
        {"ZketcdClockSkew"}, {"zketcd_proxy_clock_ahead_seconds": then(-0.02, 3600)}, PROXIES
    ),
    "a certificate ends tomorrow": Incident(
        {"ZketcdCertificateEnds"}, {"zketcd_certificate_end_seconds": then(90 * 86_400, 86_400)}
    ),
    "many clients fall silent": Incident(
        {"ZketcdSessionsExpire"}, {"zketcd_sessions_expired_total": grows(0.01, 0.5)}
    ),
    "an address has too many connections": Incident(
        {"ZketcdConnectionsRejected"}, {"connection_rejected": grows(0, 0.1)}
    ),
    "open files run out": Incident({"ZketcdFilesRunOut"}, {"open_file_descriptor_count": then(400, 60_000)}),
}


def _series_of(incident: Incident) -> dict[Sample, Series]:
    """A healthy cluster's, with the incident's."""
    series = healthy()
    for name, change in incident.changes.items():
        hit = [sample for sample in series if sample.name == name and sample.instance in incident.where]
        assert hit, name
        for sample in hit:
            of: Any = change
            series[sample] = of(sample) if name in _BUCKETS else of
    return series


def _fired(
    folder: Path,
    series: Mapping[str, str],
    end: int,
    every: int = EVERY,
    looks: int = _MINUTE,
    since: int = 0,
) -> set[str]:
    """The alerts that have fired, `since` so many seconds. `series`: in promtool's notation, `every` seconds.

    `looks`: the rules are evaluated so many seconds apart; each minute is Prometheus's own choice.
    """
    (folder / "alerts.yml").write_text(RULES.read_text())
    firing = 'ALERTS{alertstate="firing"}'
    test = {
        "interval": f"{every}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"group by (alertname) (max_over_time({firing}[{end - since}s]))",
                "eval_time": f"{end}s",
                "exp_samples": [{"labels": '{alertname="none"}', "value": 1}],
            }
        ],
    }
    suite = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{looks}s", "tests": [test]}
    (folder / "test.yml").write_text(json.dumps(suite))  # which YAML can read
    promtool = find_program("promtool", "make setup-test installs it")
    # It says what it has got, as another thing is expected.
    done = subprocess.run(
        [promtool, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "got:" in done.stdout + done.stderr, done.stderr
    got = (done.stdout + done.stderr).partition("got:")[2]
    return set(re.findall(r'alertname=\\?"(\w+)', got))


def _written(series: Mapping[Sample, Series], end: int, every: int = EVERY) -> dict[str, str]:
    """Series of functions, in promtool's notation."""
    return {str(sample): notation(map(of, range(0, end + 1, every))) for sample, of in series.items()}


@pytest.mark.parametrize("name", [name for name, incident in _INCIDENTS.items() if incident.changes])
def test_an_incident_fires_its_alerts_and_no_others(name: str, tmp_path: Path) -> None:
    incident = _INCIDENTS[name]
    end = _BEGIN + incident.minutes * _MINUTE
    assert _fired(tmp_path, _written(_series_of(incident), end), end) == incident.alerts


@pytest.mark.parametrize("name", RECORDED)
def test_a_real_incident_fires_its_alerts_and_no_others(name: str, tmp_path: Path) -> None:
    """The series were recorded from real processes: see record.py."""
    lines = recording(name).read_text().splitlines()
    series = dict(line.split("\t") for line in lines)
    others = _OF_ARCHIVERS | _OF_COPIES | _OF_OPTIONS
    recorded = {line.partition("{")[0] for line in lines}
    assert recorded == of_rules() - others, "record again: python -m tests.deploy.record"
    assert _fired(tmp_path, series, 60 + RECORDED[name].lasts) == _INCIDENTS[name].alerts


def test_a_healthy_day_fires_nothing(tmp_path: Path) -> None:
    one = {*PROXIES[:1], *MEMBERS[:1]}
    series = {sample: of for sample, of in healthy().items() if sample.instance in one}
    end = 24 * 3600
    assert _fired(tmp_path, _written(series, end, 60), end, 60, looks=300) == set()


@pytest.mark.parametrize("found_meanwhile", [0, 1, -1])
def test_digests_that_disagreed_before_prometheus_was_away_are_no_news(
    tmp_path: Path, found_meanwhile: int
) -> None:
    """A count below the former one is that of another process, which has found them."""
    back = _BEGIN + 30 * _MINUTE

    def count(at: int) -> float | None:
        return 2 if at < _BEGIN else None if at < back else 2 + found_meanwhile

    incident = Incident(set(), {"zketcd_log_digest_disagreements_total": count})
    end = back + 20 * _MINUTE
    expected = {"ZketcdDigestsDisagree"} if found_meanwhile else set()
    assert _fired(tmp_path, _written(_series_of(incident), end), end, since=_BEGIN) == expected


def test_each_alert_has_an_incident() -> None:
    assert set().union(*(incident.alerts for incident in _INCIDENTS.values())) == {
        rule["alert"] for rule in rules()
    }
