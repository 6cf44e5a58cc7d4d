"""The command line; a run with a planted fault must fail, and what it keeps must show that."""

import json
from pathlib import Path

import pytest

from proof import check
from proof.torture.__main__ import main


@pytest.mark.real
def test_proxies_with_a_planted_fault_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["--minutes", "0.1", "--proxies", "1", "--clients", "6", "--faults", "compaction"]
    arguments += ["--seed", "3"]  # whose first fault lasts for 6 s
    planted = ["--plant", "versions unchecked", "--work-dir", str(tmp_path), "--json", str(figures)]
    assert main([*arguments, *planted]) == 1
    said = capsys.readouterr().out
    found = json.loads(figures.read_text())["violations"]
    for rule in ("log: ", "history: linearizable: ", "tree: "):
        assert any(violation.startswith(rule) for violation in found)
    assert "VIOLATION: " in said
    (kept,) = tmp_path.glob("*/history.jsonl")
    assert f"python -m proof.check {kept}" in said
    assert check.main([str(kept)]) == 1
