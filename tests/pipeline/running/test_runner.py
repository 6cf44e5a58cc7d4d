"""Small tables are for this process, large ones for Spark; without Spark one line says how to get it."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.servers.process import REPOSITORY
from pipeline.job import Table
from pipeline.options import MOST_BYTES, MOST_ROWS
from pipeline.running.runner import reason_for_spark
from pipeline.sources.parquet import RemoteParquet
from tests.pipeline.trees import SAMPLES, MemoryReader, node, write_parquet, write_snapshot
from tests.table import one_by_one

# A machine with neither Spark nor what comes with it.
WITHOUT = "\n".join(
    [
        "import sys",
        "class Absent:",
        "    def find_spec(self, name, path=None, target=None):",
        "        if name.partition('.')[0] in sys.argv[1].split(','):",
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)",
        "sys.meta_path.insert(0, Absent())",
        "from zketcd.__main__ import main",
        "if sys.argv[2]:",
        "    import pipeline.running.runner as runner",
        "    runner.MOST_ROWS = int(sys.argv[2])",
        "code = main(sys.argv[3:])",
        "assert not set(sys.argv[1].split(',')) & set(sys.modules)",
        "sys.exit(code)",
    ]
)


def run(
    *words: str, most: int | str = "", without: str = "pyspark,py4j,pandas"
) -> subprocess.CompletedProcess[str]:
    """A command where Spark is not installed, nor Java to be found."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, without, str(most), *words],
        cwd=REPOSITORY,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(autouse=True)
def _no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


@one_by_one(
    ("asked", "rows", "size", "by_spark"),
    [
        (None, None, None, False),
        (None, MOST_ROWS, MOST_BYTES, False),
        (None, MOST_ROWS + 1, 0, True),
        (None, None, MOST_BYTES + 1, True),
        (True, 1, 1, True),
        (False, MOST_ROWS + 1, 0, False),
    ],
)
def test_size_or_an_option_chooses(
    asked: bool | None, rows: int | None, size: int | None, by_spark: bool
) -> None:
    tables = [Table(MemoryReader(()), 1, 1), Table(MemoryReader(()), rows, size)]
    assert (reason_for_spark(asked, tables) is not None) == by_spark


@pytest.mark.parametrize("name", ["MASTER", "PYSPARK_GATEWAY_PORT"])
def test_whoever_names_a_master_means_spark(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "local[1]")
    assert reason_for_spark(None, [Table(MemoryReader(()), 1)]) == f"{name} is set in the environment"
    assert reason_for_spark(False, [Table(MemoryReader(()), 1)]) is None


@pytest.mark.parametrize(
    ("rows", "size", "buckets"), [(250_000, 1 << 40, 3), (0, None, 1), (None, 50 << 20, 3), (None, None, 128)]
)
def test_a_bucket_is_small_however_large_the_table_is(
    rows: int | None, size: int | None, buckets: int
) -> None:
    assert Table(MemoryReader(()), rows, size).buckets == buckets


def test_parquet_at_a_url_is_for_spark() -> None:
    assert reason_for_spark(False, [Table(RemoteParquet("s3a://bucket/t"))]) is not None


@pytest.mark.long
def test_without_arrow_one_line_says_how_to_get_it() -> None:
    done = run("inspect", str(SAMPLES / "zk39-plain"), without="pyspark,py4j,pandas,pyarrow,numpy")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "is not installed: `make setup-pipeline-small` installs" in line
    assert run("--help", without="pyspark,py4j,pandas,pyarrow,numpy").returncode == 0


@pytest.mark.long
def test_small_trees_need_no_spark(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / "t", node("/", 0), node("/a"))
    write_snapshot(tmp_path / "zk", 5, [node("/", 0), node("/a")])
    done = run("verify", table, str(tmp_path / "zk"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "equal"), done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["inspect", str(SAMPLES / "zk39-plain"), "--spark"], ""),
        (["inspect", str(SAMPLES / "zk39-plain")], 100),
        (["inspect", "parquet:s3a://bucket/table"], ""),
    ],
)
@pytest.mark.long
def test_without_spark_one_line_says_how_to_get_it(words: list[str], most: int | str) -> None:
    done = run(*words, most=most)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("and Spark is not installed: `make setup-pipeline` installs it")
