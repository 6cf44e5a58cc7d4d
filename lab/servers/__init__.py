"""Starters for the real servers that tests and benchmarks run against.

Here: processes, ports, waiting with deadlines. Not here: pytest (so that bench/ can use the starters as
well), protocol code, assertions about the servers' behaviour.
"""

from lab.servers.etcd import EtcdServer
from lab.servers.kerberos import Kdc
from lab.servers.ports import free_port
from lab.servers.process import BinaryMissing, ServerProcess, StartFailed
from lab.servers.waiting import eventually, wait_until
from lab.servers.zketcd import UpgradableServer, ZketcdServer
from lab.servers.zookeeper import (
    ZooKeeperServer,
    zookeeper_classpath,
    zookeeper_jar_version,
)

__all__ = [
    "BinaryMissing",
    "EtcdServer",
    "Kdc",
    "ServerProcess",
    "StartFailed",
    "UpgradableServer",
    "ZketcdServer",
    "ZooKeeperServer",
    "eventually",
    "free_port",
    "wait_until",
    "zookeeper_classpath",
    "zookeeper_jar_version",
]
