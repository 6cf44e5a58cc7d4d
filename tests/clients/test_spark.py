"""Spark's standalone masters, made highly available by ZooKeeper: one is killed, the other takes over."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from lab.servers import EtcdServer, wait_until
from lab.servers.process import REPOSITORY, ServerProcess
from tests.clients.conftest import two_servers
from tests.clients.spark import SparkMaster, SparkWorker

# Spark asks for a minute; the server grants this, and so long a dead leader goes on to lead.
SESSION_MS = 5_000

# An application that counts to the number that it is told, again and again. Spark refuses less memory.
APPLICATION = """
import sys
from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster(sys.argv[1]).setAppName("counting").setAll([
    ("spark.driver.host", "127.0.0.1"),
    ("spark.driver.memory", "512m"),
    ("spark.executor.memory", "512m"),
    ("spark.ui.enabled", "false"),
    ("spark.pyspark.python", sys.executable),
])
with SparkContext(conf=conf) as context:
    for line in sys.stdin:
        print("counted to", context.parallelize(range(int(line)), 2).count(), flush=True)
"""


@pytest.fixture
def servers(etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with two_servers(etcd_server, etcd_prefix, max_session_timeout=SESSION_MS) as started:
        yield started


class Application:
    """The application as a process."""

    def __init__(self, masters: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", APPLICATION, masters],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=REPOSITORY,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its JVM ends with the pipe to it.
        self._process.kill()
        with self._process:
            pass

    def ends(self) -> None:
        """Let it end by itself."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(60) == 0

    def counts_to(self, number: int) -> bool:
        """Let it count, on the worker."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._log.read_text()[-3000:]
        return answer == f"counted to {number}\n"


def test_the_other_master_takes_over(servers: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> None:
    addresses = ",".join(server.address for server in servers)
    with ExitStack() as stack:
        masters = [SparkMaster(addresses, "/spark") for _ in range(2)]
        url = "spark://" + ",".join(master.address for master in masters)
        worker = SparkWorker(url)
        for server in (*masters, worker):
            stack.callback(server.close)
            server.launch()
        application = stack.enter_context(Application(url, tmp_path / "application.log"))
        for server in (*masters, worker):
            server.wait_until_serving()

        wait_until(lambda: "ALIVE" in [master.status for master in masters], "one master leads", timeout=60)
        leader, other = sorted(masters, key=lambda master: master.status)
        assert other.status == "STANDBY"
        assert application.counts_to(10)
        known = leader.known("workers"), leader.known("activeapps")
        assert [state for things in known for _, state in things] == ["ALIVE", "RUNNING"]

        leader.kill()
        wait_until(lambda: other.status == "ALIVE", "the other leads", timeout=90)
        wait_until(lambda: (other.known("workers"), other.known("activeapps")) == known, "it knows both", 60)
        assert application.counts_to(20)
        application.ends()
        wait_until(lambda: not other.known("activeapps"), "the new leader hears that it has ended", 60)
