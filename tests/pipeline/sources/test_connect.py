"""The DataFrame programs of examples/, run as users do under Spark Connect, where there are no RDDs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.servers.process import REPOSITORY
from pipeline.jobs.inspect import tree_report
from pipeline.jobs.trees import Tree
from pipeline.jobs.verify import compare
from tests.pipeline.jobs.test_verify import LEFT, RIGHT
from tests.pipeline.trees import here, node, table_of, write_snapshot

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def remote(spark: SparkSession) -> str:
    """The address of the server of Spark Connect."""
    assert spark.sparkContext._jvm is not None
    service = getattr(spark.sparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://127.0.0.1:{service.__getattr__('MODULE$').localPort()}"


def run(remote: str, program: str, *trees: Path) -> list[list[str]]:
    """The words of each line that a program prints."""
    done = subprocess.run(
        [sys.executable, "-m", program, *map(str, trees)],
        cwd=REPOSITORY,
        env={**os.environ, "SPARK_REMOTE": remote},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_verify(remote: str, tmp_path: Path) -> None:
    trees = [[*LEFT, node("/twice"), node("/twice")], [*RIGHT, node("/twice")]]
    for name, rows in zip(("left", "right"), trees, strict=True):
        write_snapshot(tmp_path / name, 5, rows)
    wanted = compare(here(), *(Tree("", table_of(*rows)) for rows in trees))
    found = run(remote, "examples.spark_verify", tmp_path / "left", tmp_path / "right")
    assert {(kind, path) for kinds, path in found for kind in kinds.split(",")} == {
        (one.kind, one.path) for one in wanted.samples
    }


def test_the_largest_directories(remote: str, tmp_path: Path) -> None:
    rows = [
        node("/", 0),
        node("/a"),
        node("/a/b"),
        *(node(f"/a/b/é{number}") for number in range(5)),
        node("/c"),
    ]
    write_snapshot(tmp_path / "tree", 5, rows)
    report = tree_report(here(), Tree("", table_of(*rows)), top=10, depth=1)
    assert run(remote, "examples.spark_directories", tmp_path / "tree") == [
        [str(one["children"]), str(one["bytes of names"]), one["parent"]]
        for one in report["largest lists of children"]
    ]
