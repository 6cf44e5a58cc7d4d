"""The whole bench once, as small as it can be: real etcd, real Spark, ZooKeeper's own tools."""

import json
from pathlib import Path

import pytest

from bench.pipeline.__main__ import main


@pytest.mark.real
def test_the_bench_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A small tree is over before better code than this would pay.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    figures = tmp_path / "figures.json"
    given = ["--nodes", "1050", "--cores", "1", "--commands", "import", "--no-tools", "--json", str(figures)]
    assert main([*given, "--work-dir", str(tmp_path)]) == 0
    assert "| import | 1,050 | 1 | " in capsys.readouterr().out
    written = json.loads(figures.read_text())
    assert {"zookeeper", "etcd", "python"} <= written["environment"].keys()
    (moved,) = written["tables"]
    ((command, *cells),) = moved["rows"]
    assert command == "import"
    assert len(cells) == len(moved["head"]) - 1
    found = dict(zip(moved["head"][1:], cells, strict=True))
    assert min(found[what] for what in ("CPU s: JVM", "Python", "MiB: JVM", "driver")) > 0
    assert not list(tmp_path.glob("zketcd-bench-*"))


def test_a_tree_that_is_too_small_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "3"]) == 1
    assert "11 znodes at least" in capsys.readouterr().err
