"""Series of metrics, as promtool reads them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.deploy.test_monitoring import FOLDER, named, rules

RULES = FOLDER / "alerts.yml"
RECORDED = Path(__file__).parent / "recorded"
EVERY = 15  # seconds between two samples
PROXIES = ("zketcd-1:8080", "zketcd-2:8080", "zketcd-3:8080")
MEMBERS = ("etcd-1:2379", "etcd-2:2379", "etcd-3:2379")


class Sample(NamedTuple):
    """What Prometheus has scraped: a name, where, and the labels that the target gave it."""

    name: str
    instance: str
    labels: frozenset[tuple[str, str]] = frozenset()

    @property
    def job(self) -> str:
        """The scrape job."""
        return "etcd" if self.instance in MEMBERS else "zketcd"

    def __str__(self) -> str:
        labels = {"job": self.job, "instance": self.instance, **dict(sorted(self.labels))}
        inside = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
        return f"{self.name}{{{inside}}}"


def notation(values: Iterable[float | None]) -> str:
    """Values as promtool reads them; equal ones that follow each other are one word. None: no sample."""
    runs: list[tuple[float | None, int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1] = value, runs[-1][1] + 1
        else:
            runs.append((value, 1))
    return " ".join(
        f"_x{count}" if value is None else f"{value:.17g}" if count == 1 else f"{value:.17g}+0x{count - 1}"
        for value, count in runs
    )


def of_rules() -> set[str]:
    """The metrics that the rules are about."""
    return set().union(*(named(rule["expr"]) for rule in rules()))


def recording(incident: str) -> Path:
    """Where the series of a real incident are."""
    return RECORDED / f"{incident.replace(' ', '-')}.txt"
