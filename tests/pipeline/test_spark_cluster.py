"""Import and export on clusters of Spark, whose executors are processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.spark import SparkMaster, SparkWorker
from tests.harness import EtcdServer, wait_until
from tests.harness.process import REPOSITORY
from tests.harness.zookeeper import jar_folder, java_program
from tests.pipeline.trees import SAMPLES, read, seen, without_stats

pytestmark = pytest.mark.real

_TIMEOUT = 400  # seconds for one command, on a machine that has other things to do
_SOURCE = SAMPLES / "zk39-plain"
# Small JVMs: Spark takes no less memory.
_SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}

Run = Callable[..., str]


def _run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command where none of our modules can be found by chance; its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYTHON"))}
    environment = {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Run]:
    """A master with two workers, and spark-submit with the archive that `make pyfiles` makes."""
    archive = tmp_path / "pyfiles.zip"
    _run([sys.executable, str(REPOSITORY / "tools" / "make_pyfiles.py"), str(archive)], tmp_path)
    with ExitStack() as servers:
        master = servers.enter_context(SparkMaster())
        url = f"spark://127.0.0.1:{master.port}"
        for _ in range(2):
            servers.enter_context(SparkWorker(url))
        wait_until(
            lambda: [state for _, state in master.known("workers")] == ["ALIVE"] * 2,
            "two workers",
            timeout=90,
        )
        submit = str(jar_folder().parent / "bin" / "spark-submit")

        def run(*arguments: str) -> str:
            settings = [word for name, value in _SMALL.items() for word in ("--conf", f"{name}={value}")]
            command = [submit, "--master", url, *settings, "--py-files", str(archive)]
            return _run([*command, str(REPOSITORY / "pipeline" / "__main__.py"), *arguments], tmp_path)

        yield run


@pytest.fixture
def local_cluster(tmp_path: Path) -> Run:
    """Two executors that Spark itself starts, each in a process of its own."""
    java_program()  # BinaryMissing is a skip

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "pipeline", *arguments]
        return _run(
            command,
            tmp_path,
            MASTER="local-cluster[2,1,1024]",
            PYTHONPATH=str(REPOSITORY),
            SPARK_SCALA_VERSION="2.13",
        )

    return run


@pytest.mark.timeout(3 * _TIMEOUT)  # eight JVMs, one after the other
def test_import_and_export(
    standalone: Run, local_cluster: Run, etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    target = ("--etcd", etcd_server.endpoint, "--prefix", etcd_prefix)
    _, there = read(_SOURCE)
    output = standalone("import", str(_SOURCE), *target, "--keep-sessions", "--spark")
    assert f"imported: {len(there)} znodes" in output
    local_cluster("export", str(tmp_path / "exported"), *target, "--keep-sessions", "--spark")
    _, exported = read(tmp_path / "exported")
    assert without_stats(seen(exported)) == without_stats(seen(there))
