"""The documents' files from results, and that ours are what the committed results say."""

import json
from pathlib import Path

import pytest

from bench.plots.__main__ import DOCUMENTS, main
from bench.report import as_json
from bench.workloads import Cell
from tests.bench.plots.sample import ENVIRONMENT, MEMORY, SIDECARS, curves, reference


def test_our_documents_show_the_committed_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr()


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Options for results and documents of the test's own."""
    results, root = tmp_path / "results", tmp_path / "root"
    results.mkdir()
    (root / "docs").mkdir(parents=True)
    (results / "reference.json").write_text(json.dumps(as_json(reference(), ENVIRONMENT)))
    for name in DOCUMENTS:
        (root / name).write_text("<!-- results: summary -->\n<!-- end -->\n")
    return ["--results", str(results), "--root", str(root)]


def test_files_follow_results(folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = tmp_path / "root" / "docs" / "performance"
    assert main([*folders, "--check"]) == 1
    assert "README.md differs" in capsys.readouterr().out
    assert not pictures.exists()
    assert main(folders) == 0
    assert "| get | 1 x 1 | 100 | 200 |" in (tmp_path / "root" / "README.md").read_text()
    assert sorted(path.name for path in pictures.iterdir()) == ["costs.svg", "speed.svg"]
    capsys.readouterr()
    assert main([*folders, "--check"]) == 0
    assert capsys.readouterr().out == ""
    faster = reference()
    faster[Cell("create", 64, 32), "zketcd"].rounds[0]["rate"] *= 1.01
    (tmp_path / "results" / "reference.json").write_text(json.dumps(as_json(faster, ENVIRONMENT)))
    assert main([*folders, "--check"]) == 1
    assert "docs/performance/speed.svg differs" in capsys.readouterr().out
    (tmp_path / "results" / "reference.json").unlink()
    (tmp_path / "results" / "curves.json").write_text(json.dumps(as_json(curves(), ENVIRONMENT)))
    scenarios = {
        name: {**table._asdict(), "environment": {**ENVIRONMENT, "scale": 1}}
        for name, table in (("memory", MEMORY), ("sidecars", SIDECARS))
    }
    (tmp_path / "results" / "scenarios.json").write_text(json.dumps(scenarios))
    assert main(folders) == 0
    assert "docs/performance/costs.svg removed" in capsys.readouterr().out
    drawn = ["latency.svg", "memory.svg", "sidecars.svg", "throughput.svg"]
    assert sorted(path.name for path in pictures.iterdir()) == drawn


def test_a_bad_mark_or_file_changes_nothing(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "root" / "README.md").write_text("<!-- results: summary -->\n")
    assert main(folders) == 1
    assert "README.md: a mark has no end" in capsys.readouterr().err
    (tmp_path / "results" / "curves.json").write_text("{}")
    assert main(folders) == 1
    assert "curves.json holds no results" in capsys.readouterr().err
    assert not (tmp_path / "root" / "docs" / "performance").exists()
