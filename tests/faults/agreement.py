"""What proxies show, held against each other."""

from contextlib import suppress

from codec import client as zk
from codec.client import Children, Data, Stat, ZooKeeperError
from lab.client.blocking import Client
from lab.servers import EtcdServer
from lab.servers.operator import ctl

_AT_ONCE = 200


def truncate(etcd: EtcdServer, client: Client) -> None:
    """Delete all that was written so far from the log, which lies one snapshot behind."""
    for _ in range(2):
        # A snapshot needs a new entry. A sync is one while etcd is full, else a write that fails.
        client.sync()
        with suppress(ZooKeeperError):
            client.call(zk.delete("/there is no such node"))
        ctl(etcd, "snapshot")


def assert_same(*clients: Client) -> int:
    """All show the same tree, down to each field of each Stat; returns the number of nodes."""
    for client in clients:
        client.sync()
    count = 0
    paths = ["/"]
    while paths:
        now, paths = paths[:_AT_ONCE], paths[_AT_ONCE:]
        count += len(now)
        requests = [request(path) for path in now for request in (zk.get, zk.children)]
        sent = [client.send(*requests) for client in clients]
        told = []
        for client, xids in zip(clients, sent, strict=True):
            answers = [client.result(xid) for xid in xids]
            told.append([_node(*each) for each in zip(answers[::2], answers[1::2], strict=True)])
        for other in told[1:]:
            for path, ours, theirs in zip(now, told[0], other, strict=True):
                assert ours == theirs, path
        for path, (_, _, names) in zip(now, told[0], strict=True):
            paths += [f"{path.rstrip('/')}/{name}" for name in names]
    return count


def _node(read: Data, listed: Children) -> tuple[bytes, Stat, list[str]]:
    """Data, Stat and names, which have no order."""
    return read.data, read.stat, sorted(listed.names)
