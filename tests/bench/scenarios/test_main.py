"""The scenarios' tables, and one of them on real servers, as small as it can be."""

import json
import re
from pathlib import Path

import pytest

from bench.scenarios import Table
from bench.scenarios.__main__ import SCENARIOS, main

#: What is measured of the machine has a test of its own, and takes seconds for each scenario.
_FACTS = dict.fromkeys(("cores", "zookeeper", "etcd", "python", "time"), "any")


@pytest.mark.real
def test_a_scenario_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make scenarios ARGS="--scale 0.002"` runs each of them so."""
    path = tmp_path / "figures.json"
    assert main(["idle", "--scale", "0.002", "--json", str(path)], lambda: _FACTS) == 0
    assert re.search(r"^\| zketcd ", capsys.readouterr().out, re.MULTILINE)
    table = json.loads(path.read_text())["idle"]
    assert table["rows"]
    assert all(len(row) == len(table["head"]) for row in table["rows"])
    assert table["environment"]["scale"] == 0.002
    # What a znode or a session takes is a difference, and a JVM may give memory back meanwhile.
    figures = [
        cell
        for row in table["rows"]
        for name, cell in zip(table["head"][1:], row[1:], strict=True)
        if not isinstance(cell, str) and not re.search(" a (znode|session)", name)
    ]
    assert all(figure >= 0 for figure in figures)


def test_a_scenario_that_fails_is_told_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(scale: float) -> Table:
        raise BrokenPipeError("gone")

    path = tmp_path / "figures.json"
    monkeypatch.setitem(SCENARIOS, "idle", fail)
    for name in ("memory", "large"):
        monkeypatch.setitem(SCENARIOS, name, lambda scale: Table("Far", ["server", "ms"], [["b", scale]]))
    assert main(["memory", "--json", str(path)], lambda: _FACTS) == 0
    assert main(["idle", "large", "--scale", "0.5", "--json", str(path)], lambda: _FACTS) == 1
    assert "idle: BrokenPipeError('gone')" in capsys.readouterr().err
    found = {name: entry["environment"]["scale"] for name, entry in json.loads(path.read_text()).items()}
    assert found == {"memory": 1.0, "large": 0.5}, "figures of other scenarios stay"
