"""What budgets would have refused."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from pipeline.traffic.budgets import VIEW, Request, Trial
from pipeline.traffic.database import Database
from pipeline.traffic.report import Section, document, made, text
from pipeline.traffic.table import TrafficRow
from proxy.support.rates import rules_of
from tests.pipeline.traffic.rows import NOON, part, traffic


def tried(budgets: str, rows: Sequence[TrafficRow]) -> dict[str, dict[str, Any]]:
    trial = Trial(rules_of(budgets))
    assert list(trial.passing(rows)) == list(rows)
    again = Trial(rules_of(budgets))
    for row in rows:  # as Spark has them
        again.count(Request(*[getattr(row, name) for name in Request._fields]))
    assert again.rows == trial.rows
    return {row["path"]: row for row in trial.rows}


def test_requests_beyond_a_budget_are_counted() -> None:
    rows = [
        traffic("setData", "/app/n", bytes=100, time=NOON + 1000 * second + each)
        for second in range(3)
        for each in range(20 if second == 1 else 5)
    ]
    found = tried("/app=10/s,/app/n=1MB/s,/else=1/s", rows)
    assert found["/app"] == {
        "path": "/app",
        "budget": "10/s",
        "requests": 30,
        "bytes": 3000,
        "refused": 9,
        "refused_percent": 30.0,
        "seconds_with_refusals": 1,
    }
    assert (found["/app/n"]["requests"], found["/app/n"]["refused"]) == (30, 0)
    assert (found["/else"]["requests"], found["/else"]["refused_percent"]) == (0, 0.0)


def test_what_counts_is_as_in_the_server() -> None:
    rows = [
        traffic("create", "/app/s-0000000001", mode="PERSISTENT_SEQUENTIAL"),
        traffic("multi", parts=(part("create", "/app/a"), part("delete", "/app/a"), part("setData", "/b"))),
        traffic("delete", "/app/a"),
        traffic("closeSession", paths=("/app/e",)),
        traffic("create", None, result="NONODE"),
        traffic("setACL", "/app"),
        traffic("check", "/app"),
    ]
    found = tried("/app=1/s,/b=1/s", rows)
    assert (found["/app"]["requests"], found["/app"]["refused"]) == (3, 2)
    assert (found["/b"]["requests"], found["/b"]["refused"]) == (1, 0)


def test_the_report_has_a_section() -> None:
    trial = Trial(rules_of("/app=1/s"))
    with closing(Database()) as database:
        database.add(trial.passing([traffic("setData", "/app", number=number) for number in range(3)]))
        report = made("logs", database.query, 10, [Section(VIEW, trial.rows)])
        bare = made("logs", database.query, 10)
    assert document(report)["traffic_budgets"][0]["refused"] == 2
    lines = text(report).splitlines()
    start = lines.index("What budgets would have refused (traffic_budgets)")
    assert lines[start + 2].split() == ["/app", "1/s", "3", "0", "2", "66.7", "1"]
    assert "traffic_budgets" not in document(bare)
