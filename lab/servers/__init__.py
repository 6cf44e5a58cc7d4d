"""Real servers, and what tests and benchmarks need around them.

Not here: pytest (so that bench/ can use the starters as well), what clients say, and assertions about what
servers do.

process         one server process, on which the others are built; ports, waiting (with deadlines)
etcd            a real etcd; with TLS, as docs/etcd.md has it (secured)
zookeeper       the real ZooKeeper
zketcd          zketcd as users start it; forked for tests (forked); with code that runs first (with_prelude)
clusters        three members of etcd, three of ZooKeeper
kerberos        a realm, with the KDC
clickhouse, haproxy, collector (of OpenTelemetry), browser
link            a TCP link before a server, to be cut, listened to and led elsewhere
relay           TCP relays between all processes: links that stop, and slow ones
tls             certificates
digest_md5      DIGEST-MD5's client
four_letter     ZooKeeper's four-letter words
operator        what an operator does to etcd and to a tree
pages           runs the commands of a page of docs/
clean_root      a root of its own, to install packages into
manifests       Kubernetes manifests and their schemas
"""

from lab.servers.etcd import EtcdServer
from lab.servers.kerberos import Kdc
from lab.servers.ports import free_port
from lab.servers.process import BinaryMissing, ServerProcess, StartFailed
from lab.servers.waiting import eventually, wait_until
from lab.servers.zketcd import UpgradableServer, ZketcdServer
from lab.servers.zookeeper import ZooKeeperServer, zookeeper_classpath, zookeeper_jar_version

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
