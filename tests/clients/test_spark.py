"""Spark's standalone masters, made highly available by ZooKeeper: one is killed, the other takes over."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.servers import EtcdServer, wait_until
from lab.servers.process import ServerProcess
from tests.clients.child import Child
from tests.clients.conftest import two_servers
from tests.clients.spark import SHORT_LIVED, SparkMaster, SparkWorker

# Spark asks for a minute; the server grants this, and so long a dead leader stays the leader.
SESSION_MS = 5_000

# An application that counts to a given number, again and again. Spark refuses less memory.
APPLICATION = """
import sys
from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster(sys.argv[1]).setAppName("counting").setAll([
    ("spark.driver.host", "127.0.0.1"),
    ("spark.driver.memory", "512m"),
    ("spark.executor.memory", "512m"),
    ("spark.ui.enabled", "false"),
    ("spark.driver.extraJavaOptions", sys.argv[2]),
    ("spark.executor.extraJavaOptions", sys.argv[2]),
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


def test_the_other_master_takes_over(servers: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> None:
    addresses = ",".join(server.address for server in servers)
    with ExitStack() as stack:
        masters = [SparkMaster(addresses, "/spark") for _ in range(2)]
        url = "spark://" + ",".join(master.address for master in masters)
        worker = SparkWorker(url)
        for server in (*masters, worker):
            stack.callback(server.close)
            server.launch()
        application = stack.enter_context(
            Child(tmp_path / "application.log", "-c", APPLICATION, url, SHORT_LIVED)
        )
        for server in (*masters, worker):
            server.wait_until_serving()

        wait_until(lambda: "ALIVE" in [master.status for master in masters], "one master leads", timeout=60)
        leader, other = sorted(masters, key=lambda master: master.status)
        assert other.status == "STANDBY"
        assert application.ask("10", "") == "counted to 10\n"
        known = leader.known("workers"), leader.known("activeapps")
        assert [state for things in known for _, state in things] == ["ALIVE", "RUNNING"]

        leader.kill()
        wait_until(lambda: other.status == "ALIVE", "the other leads", timeout=90)
        wait_until(lambda: (other.known("workers"), other.known("activeapps")) == known, "it knows both", 60)
        assert application.ask("20", "") == "counted to 20\n"
        application.ends()
        wait_until(lambda: not other.known("activeapps"), "the new leader hears that it has ended", 60)
