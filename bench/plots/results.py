"""The results that the documents show, read from their JSON files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import BenchError
from bench.report import from_json
from bench.run import Results
from bench.scenarios import Table


class Run(NamedTuple):
    """What one `python -m bench` found."""

    environment: Mapping[str, Any]
    results: Results


class Scenario(NamedTuple):
    """What one scenario found."""

    environment: Mapping[str, Any]
    table: Table


class Found(NamedTuple):
    """All that there is; None and nothing where a file is missing."""

    reference: Run | None
    curves: Run | None
    scenarios: Mapping[str, Scenario]


def read(folder: Path) -> Found:
    """The results in a folder. Raises BenchError for a file that isn't one of the bench's."""
    return Found(
        _run(folder / "reference.json"), _run(folder / "curves.json"), _scenarios(folder / "scenarios.json")
    )


def _run(path: Path) -> Run | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        return Run(found["environment"], from_json(found))
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path} holds no results of `python -m bench`: {error!r}") from None


def _scenarios(path: Path) -> Mapping[str, Scenario]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
        return {
            name: Scenario(entry["environment"], Table(entry["title"], entry["head"], entry["rows"]))
            for name, entry in found.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(f"{path} holds no results of `python -m bench.scenarios`: {error!r}") from None
