"""Starters for the real servers that tests and benchmarks run against.

Here: processes, ports, waiting with deadlines. Not here: pytest (so that bench/ can use the starters as
well), protocol code, assertions about the servers' behaviour.
"""

from tests.harness.etcd import EtcdServer
from tests.harness.kerberos import Kdc
from tests.harness.ports import free_port
from tests.harness.process import BinaryMissing, ServerProcess, StartFailed
from tests.harness.waiting import eventually, wait_until
from tests.harness.zketcd import ZketcdServer
from tests.harness.zookeeper import (
    ZooKeeperServer,
    debian_zookeeper_classpath,
    zookeeper_classpath,
    zookeeper_jar_version,
)

__all__ = [
    "BinaryMissing",
    "EtcdServer",
    "Kdc",
    "ServerProcess",
    "StartFailed",
    "ZketcdServer",
    "ZooKeeperServer",
    "debian_zookeeper_classpath",
    "eventually",
    "free_port",
    "wait_until",
    "zookeeper_classpath",
    "zookeeper_jar_version",
]
