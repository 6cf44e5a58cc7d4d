"""Reading results."""

import json
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.plots.results import Found, Scenario, read
from bench.report import as_json
from tests.bench.plots.sample import ENVIRONMENT, MEMORY, curves


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read(tmp_path) == Found(None, None, {})
    (tmp_path / "curves.json").write_text(json.dumps(as_json(curves(), ENVIRONMENT)))
    (tmp_path / "scenarios.json").write_text(
        json.dumps({"memory": {**MEMORY._asdict(), "environment": {"scale": 1}}})
    )
    found = read(tmp_path)
    assert found.curves is not None
    assert found.curves.results == curves()
    assert found.curves.environment == ENVIRONMENT
    assert found.scenarios == {"memory": Scenario({"scale": 1}, MEMORY)}


@pytest.mark.parametrize("name", ["reference.json", "curves.json", "scenarios.json"])
@pytest.mark.parametrize("content", ["{", "[1]", '{"results": 5}'])
def test_another_file_is_told(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BenchError, match=f"{name} holds no results of"):
        read(tmp_path)
