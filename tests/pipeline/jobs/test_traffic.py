"""inspect --traffic: the same questions to zketcd's log and to ZooKeeper's, and reports."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from lab.oracle.client import Client
from lab.servers import EtcdServer
from lab.servers.process import REPOSITORY
from pipeline.sources.options import options_of
from pipeline.sources.zookeeper_log import LogReader, traffic_rows
from pipeline.traffic import report
from pipeline.traffic.arrow import batches
from pipeline.traffic.budgets import Trial
from pipeline.traffic.table import TrafficRow
from pipeline.traffic.views import VIEWS
from proxy.support.rates import rules_of
from tests.pipeline.ensembles import Origin, ephemerals, populate, zketcd
from tests.pipeline.trees import SAMPLES
from zketcd.__main__ import main

SAMPLE = str(SAMPLES / "zk39-plain")


def inspect(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["inspect", "--traffic", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def rows_of(path: Path) -> list[TrafficRow]:
    reader = LogReader(options_of({"path": str(path), "table": "traffic"}))
    return [row for run in reader.partitions() for row in traffic_rows(run)]


def test_logs_of_zookeeper(capsys: pytest.CaptureFixture[str]) -> None:
    found = inspect(capsys, SAMPLE, "--top", "2", "--depth", "2")
    assert (found["requests"], found["operations"], found["failed requests"]) == (582, 670, 7)
    assert found["znodes added"] == 528  # the fixed nodes are not in the log
    assert found["traffic_multis"][0] == {"parts": 2, "multis": 80, "bytes": 840, "size": 24275, "failed": 0}
    assert [row["clickhouse_table"][-7:] for row in found["traffic_clickhouse"]] == ["table_0", "table_1"]
    assert len(found["traffic_prefixes"]) == 2
    assert main(["inspect", "--traffic", SAMPLE]) == 0
    assert "Hot directories (traffic_directories)" in capsys.readouterr().out


@pytest.mark.real
def test_zketcd_tells_what_zookeeper_tells(
    origin: Origin, etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same clients, one after the other, at a real ZooKeeper and at zketcd."""
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        client = Client(server.port)
        populate(client)
        made = ephemerals(client)
        client.close()
        found = inspect(capsys, f"etcd://{etcd_server.address}{etcd_prefix}", "--top", "1000")
    assert made == origin.ephemerals
    # Others have looked at ZooKeeper's tree meanwhile.
    theirs = [row for row in rows_of(origin.files) if row.session_id == origin.session.id]
    assert found["requests"] == len(theirs) + 1  # ZooKeeper was stopped before the session was closed
    wanted: dict[str, int] = {}
    for row in theirs:
        for name in [part.operation for part in row.parts or ()] or [row.operation]:
            wanted[name] = wanted.get(name, 0) + 1
    wanted["closeSession"] = 1
    assert {row["operation"]: row["operations"] for row in found["traffic_results"]} == wanted
    assert {row["result"] for row in found["traffic_results"]} == {"OK"}
    stems = {row["stem"]: row["created"] for row in found["traffic_sequences"]}
    assert stems == {
        **{f"{path}/n-": 5 for path in ("/seq", "/seq-", "/seq.x", "/container")},
        "/locks/lock-": 2,
    }
    assert found["znodes added"] == sum(row.nodes or 0 for row in theirs) - len(made)
    assert found["bytes of data"] == sum(row.bytes for row in theirs)


_WITHOUT_LIBRARIES = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "numpy", "pandas", "pyspark", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from zketcd.__main__ import main
sys.exit(main(["inspect", "--traffic", *sys.argv[1:]]))
"""


@pytest.mark.real
def test_a_log_of_zketcd_is_read_where_no_library_of_the_pipeline_is(
    etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """As in the Debian package. ZooKeeper's logs need them, and the message says how to add them."""

    def without_libraries(source: str) -> tuple[int, str]:
        words = [sys.executable, "-c", _WITHOUT_LIBRARIES, source, "--json"]
        ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=REPOSITORY)
        return ended.returncode, ended.stdout or ended.stderr

    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        client = Client(server.port)
        populate(client)
        client.close()
        code, text = without_libraries(f"etcd://{etcd_server.address}{etcd_prefix}")
    assert code == 0, text
    assert json.loads(text)["traffic_prefixes"]
    code, text = without_libraries(SAMPLE)
    assert code == 2
    assert "numpy is not installed" in text or "pyarrow is not installed" in text


@pytest.mark.real
def test_a_table_that_a_stream_has_written(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (batch,) = batches(rows_of(Path(SAMPLE))[:40])
    parquet.write_table(pyarrow.Table.from_batches([batch]), tmp_path / "1.parquet")
    # tests/pipeline/traffic/test_views.py asks Spark for others.
    monkeypatch.setattr(report, "VIEWS", [view for view in VIEWS if view.name == "traffic_results"])
    found = inspect(capsys, f"parquet:{tmp_path}", "--budget", "/=3/s")
    assert found["requests"] == 40
    (budget,) = found["traffic_budgets"]
    trial = Trial(rules_of("/=3/s"))
    assert len(list(trial.passing(rows_of(Path(SAMPLE))[:40]))) == 40
    assert [budget] == trial.rows
    assert budget["refused"] > 0
    assert sum(row["operations"] for row in found["traffic_results"]) == found["operations"]


def test_budgets_that_are_not_there_yet(capsys: pytest.CaptureFixture[str]) -> None:
    found = inspect(capsys, SAMPLE, "--budget", "/=5/s,1MB/s", "--budget", "/none=1/s")
    root, none = found["traffic_budgets"]
    assert (root["path"], root["budget"], none["requests"]) == ("/", "5/s,1MB/s", 0)
    assert 0 < root["refused"] < root["requests"]
    for words, said in (
        (["--traffic", "--budget", "/a"], "--budget: '/a' is no budget"),
        (["--traffic", "--budget", "/a=1/s", "--budget", "/a=2/s"], "two budgets of one path"),
        (["--budget", "/a=1/s"], "--budget goes with --traffic"),
    ):
        assert main(["inspect", SAMPLE, *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("name", ["traffic.html", "traffic.png"])
def test_reports(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / name
    inspect(capsys, SAMPLE, "--report", str(file))
    content = file.read_bytes()
    assert content.startswith(b"<!DOCTYPE html>" if name.endswith("html") else b"\x89PNG")
    assert len(content) > 20_000


@pytest.mark.long
def test_a_disk_that_is_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full.png").symlink_to("/dev/full")
    assert main(["inspect", "--traffic", SAMPLE, "--report", str(tmp_path / "full.png")]) == 2
    error = capsys.readouterr().err
    assert "full.png: No space left on device" in error
    assert error.count("\n") == 1


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "pipeline.traffic.plots", raising=False)
    monkeypatch.delattr("pipeline.traffic.plots", raising=False)
    assert main(["inspect", "--traffic", SAMPLE, "--report", "traffic.html"]) == 2
    assert "--report needs the package matplotlib: `make setup-pipeline`" in capsys.readouterr().err
