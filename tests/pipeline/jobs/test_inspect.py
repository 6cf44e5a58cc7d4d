"""inspect counts rightly, knows a wrong digest, and does without pandas, which is slow to import."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codec.snapshot_file import pack_digest
from lab.servers.process import REPOSITORY
from pipeline.jobs.inspect import log_report, tree_report
from pipeline.jobs.trees import Tree, directory_of
from pipeline.sources.options import options_of
from pipeline.table import AclRow
from tests.pipeline.trees import SAMPLES, digest_of, here, node, write_snapshot
from zketcd.__main__ import main


def inspect(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    code = main(["inspect", "--json", *words])
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    assert code == (1 if "WRONG" in str(report.get("digest")) else 0)
    return report


def test_a_sample(capsys: pytest.CaptureFixture[str]) -> None:
    report = inspect(capsys, str(SAMPLES / "zk39-plain"), "--top", "2", "--depth", "2")
    told = {name: value for name, value in report.items() if not isinstance(value, list)}
    assert told == {
        "snapshot": "snapshot.1f3, 96433 bytes uncompressed",
        "logs behind it": "log.1f4, 83 transactions",
        "zxid": "0x1f3 to 0x246",
        "sessions": 2,
        "nodes": 532,
        "bytes of data": 23616,
        "nodes with null data": 1,
        "depth": 8,
        "largest zxid in a node": "0x246",
        "persistent nodes": 438,
        "ephemeral nodes": 90,
        "container nodes": 2,
        "ttl nodes": 2,
        "digest": "0x10af776b237, as the files promise",
        "transactions in logs": 582,
        "seconds": 4,
        "transactions per second": 145.5,
        "in the busiest second": 490,
        "sessions opened": 3,
        "sessions closed": 1,
    }
    assert report["largest data"] == [
        {"path": "/misc/big", "bytes": 6000},
        {"path": "/misc/binary", "bytes": 256},
    ]
    assert report["largest lists of children"] == [
        {"parent": "/clickhouse/tables/01/db.table_0/log", "children": 70, "bytes of names": 1260},
        {"parent": "/clickhouse/tables/01/db.table_0/blocks", "children": 40, "bytes of names": 1913},
    ]
    assert report["parts of multis"] == [{"parts": 2, "multis": 80}, {"parts": 3, "multis": 1}]
    assert report["errors"] == [{"error": "no_node", "times": 3}, {"error": "bad_version", "times": 2}]
    prefixes = report["prefixes"]
    assert isinstance(prefixes, list)
    assert prefixes[0]["prefix"] == "/clickhouse/tables"


def test_the_locale_of_a_server_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    report = inspect(capsys, str(SAMPLES / "zk39-posixlocale"), "--no-logs")
    assert "whose locale knew ASCII only" in str(report["digest"])
    assert "seconds" not in report


def test_a_wrong_digest_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = [node("/", 0), node("/é", owner=77, aversion=-1), node("/zookeeper/x")]
    right = digest_of(nodes)
    write_snapshot(tmp_path / "right", 5, nodes, trailers=[pack_digest(5, right)])
    report = inspect(capsys, str(tmp_path / "right"))
    assert (report["digest"], report["transactions in logs"]) == (f"{right:#x}, as the files promise", 0)
    write_snapshot(tmp_path / "wrong", 5, nodes, trailers=[pack_digest(5, right + 1)])
    assert (
        inspect(capsys, str(tmp_path / "wrong"))["digest"]
        == f"WRONG: {right:#x}, but the files promise {right + 1:#x}"
    )


def test_a_nul_in_a_path_or_an_acl_is_counted_as_any_character(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    acl = (AclRow(31, "digest", "a\0b:c"),)
    write_snapshot(tmp_path, 5, [node("/", 0), node("/a\0b", acl=acl, owner=77), node("/a\0b/c", acl=acl)])
    report = inspect(capsys, str(tmp_path), "--depth", "2")
    assert "a\\u0000b" in json.dumps(report["ACLs"])
    assert "/a\\u0000b" in json.dumps(report)


def test_the_report_is_readable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "zk39-gz", tmp_path / "zk")
    snapshot = next((tmp_path / "zk" / "version-2").glob("snapshot.1f3*"))
    snapshot.write_bytes(snapshot.read_bytes()[:-5])
    assert main(["inspect", str(tmp_path / "zk"), "--no-logs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nodes                      532" in lines
    assert any(line.startswith("  ") and "is cut short" in line for line in lines)


def test_many_buckets_tell_the_same_as_one() -> None:
    found = directory_of(options_of({"path": str(SAMPLES / "zk39-plain"), "splitBytes": "20000"}))
    logs = found.transactions()
    reports = []
    for rows, of_logs in ((found.znodes.rows, 1), (None, None)):
        tree = Tree("", found.znodes._replace(rows=rows), found)
        report = tree_report(here(), tree, 5, 3)
        reports.append(report | log_report(here(), logs._replace(rows=of_logs), 5, 3))
    assert reports[0] == reports[1]


_PROGRAM = """
import sys
from zketcd.__main__ import main
assert main(sys.argv[1:]) == 0
assert "pandas" not in sys.modules
import pyarrow
print(len(pyarrow.table({"a": [1, 2]}).to_pandas()))
assert "pandas" in sys.modules
"""


@pytest.mark.long
def test_a_small_tree_is_inspected_without_pandas_which_is_there_for_those_who_ask() -> None:
    """In a process of its own: this one may have it already."""
    words = ["inspect", str(SAMPLES / "zk39-plain")]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2"
