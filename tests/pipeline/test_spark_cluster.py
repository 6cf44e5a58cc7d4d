"""Import and export on a cluster of Spark, in one application: JVMs take most of the time."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.servers import EtcdServer, wait_until
from lab.servers.process import REPOSITORY
from lab.servers.zookeeper import jar_folder
from tests.clients.spark import SHORT_LIVED, SparkMaster, SparkWorker
from tests.pipeline.trees import SAMPLES, read, seen, without_stats

pytestmark = pytest.mark.real

_TIMEOUT = 400  # seconds for one application, on a machine that has other things to do
_SOURCE = SAMPLES / "zk39-plain"
_MAIN = REPOSITORY / "zketcd" / "__main__.py"
_DEFAULTS = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}
# Small executors for the worker of the standalone cluster: Spark takes no less memory.
_SMALL = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1")
# Nothing begins before both are there, however late one of them starts.
_BOTH = (
    *("--conf", "spark.cores.max=2", "--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
    *("--conf", "spark.scheduler.maxRegisteredResourcesWaitingTime=300s"),
)
# Runs one command after another as `python __main__.py ...` would, in one application. It says on how many
# executors, besides the driver.
_PROGRAM = """
import json, os, runpy, sys
from pyspark import SparkContext

path, lines = sys.argv[1], json.loads(sys.argv[2])
sys.path[0] = os.path.dirname(path)
for line in lines:
    sys.argv = [path, *line]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
context = SparkContext._active_spark_context
print("executors:", len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1)
"""

Run = Callable[..., str]


def _run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command where none of our modules can be found by chance; its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYTHON"))}
    (folder / "spark-defaults.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in _DEFAULTS.items())
    )
    ours = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **ours, **variables},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _program(folder: Path, lines: list[list[str]]) -> list[str]:
    program = folder / "commands.py"
    program.write_text(_PROGRAM)
    return [str(program), str(_MAIN), json.dumps(lines)]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Run]:
    """A master, a worker with two executors, and spark-submit with the archive that `make pyfiles` makes."""
    archive = tmp_path / "pyfiles.zip"
    _run([sys.executable, str(REPOSITORY / "tools" / "make_pyfiles.py"), str(archive)], tmp_path)
    with ExitStack() as servers:
        master = servers.enter_context(SparkMaster())
        url = f"spark://127.0.0.1:{master.port}"
        servers.enter_context(SparkWorker(url, executors=2))
        wait_until(
            lambda: [state for _, state in master.known("workers")] == ["ALIVE"], "the worker", timeout=90
        )
        submit = str(jar_folder().parent / "bin" / "spark-submit")

        def run(*lines: list[str]) -> str:
            command = [submit, "--master", url, *_SMALL, *_BOTH, "--py-files", str(archive)]
            return _run([*command, *_program(tmp_path, list(lines))], tmp_path)

        yield run


@pytest.mark.timeout(3 * _TIMEOUT)
def test_import_and_export(
    standalone: Run, etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    options = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix, "--keep-sessions", "--spark"]
    output = standalone(["import", str(_SOURCE), *options], ["export", str(tmp_path / "exported"), *options])
    _, there = read(_SOURCE)
    assert f"imported: {len(there)} znodes" in output
    assert f"exported: {len(there)} znodes" in output
    assert "executors: 2" in output
    _, exported = read(tmp_path / "exported")
    assert without_stats(seen(exported)) == without_stats(seen(there))
