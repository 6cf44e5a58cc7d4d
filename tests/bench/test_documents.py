"""The documents show the committed results, and change with them."""

import json
from pathlib import Path

import pytest

from bench.documents import DOCUMENTS, main
from bench.report import as_json
from bench.run import Outcome, Results
from bench.workloads import Cell

ENVIRONMENT = {
    "arguments": "--quick",
    "time": "2026-11-21T15:31:45+00:00",
    "cores": 2,
    "python": "3.11.7",
    "zookeeper": "3.9.5",
    "etcd": "3.5.30",
    "rounds": 1,
    "seconds per run": 0.5,
}


def test_our_documents_show_the_committed_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr()


def test_documents_follow_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"rate": 100.0, "p50_ms": 2.0, "p99_ms": 9.0, "generator": 0.2, "others": 0.1, "cpu_server": 0.01}
    costs = dict.fromkeys(("rss_server", "etcd_txn", "etcd_put", "etcd_fsync"), 1.0)
    found: Results = {
        (cell, server): Outcome([{**rates, **costs}], [])
        for cell in (Cell("get", 1, 1), Cell("get", 64, 32))
        for server in ("zookeeper", "zketcd")
    }
    (tmp_path / "reference.json").write_text(json.dumps(as_json(found, ENVIRONMENT)))
    for name in DOCUMENTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("<!-- results: summary -->\n<!-- end -->\n")
    options = ["--results", str(tmp_path), "--root", str(tmp_path)]
    assert main([*options, "--check"]) == 1
    assert "README.md differs" in capsys.readouterr().out
    assert main(options) == 0
    assert "| get | 1 x 1 | 100 | 100 | 1.00 |" in (tmp_path / "README.md").read_text()
    assert main([*options, "--check"]) == 0
    (tmp_path / "scenarios.json").write_text("[1]")
    assert main(options) == 1
    assert "scenarios.json holds no results" in capsys.readouterr().err
    assert main(["--results", str(tmp_path / "result"), "--root", str(tmp_path)]) == 1
    assert "result is no folder" in capsys.readouterr().err
    assert "| get | 1 x 1 | 100 | 100 | 1.00 |" in (tmp_path / "README.md").read_text()
