"""What proxies show, held against each other; who of them lives, and who lets a client in again."""

from contextlib import suppress

from lab.client import blocking as zk
from lab.client.blocking import Client, Disconnected, Refused
from lab.client.requests import Children, Data, Stat
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import ctl, etcdctl

_PROXIES = "/zketcd/live/proxy/"
_AT_ONCE = 200


def incarnations(etcd: EtcdServer) -> list[str]:
    """The living proxies' names, the eldest first."""
    keys = etcdctl(etcd, "get", "--prefix", "--keys-only", "--sort-by=CREATE", _PROXIES).split()
    return [key.removeprefix(_PROXIES) for key in keys]


def truncate(etcd: EtcdServer, client: Client) -> None:
    """Delete all that was written so far from the log, which lies one snapshot behind."""
    for _ in range(2):
        # A snapshot needs a new entry. A sync is one while etcd is full, else a write that fails.
        client.sync()
        with suppress(Refused):
            client.call(zk.delete("/there is no such node"))
        ctl(etcd, "snapshot")


def let_in_again(client: Client, port: int) -> None:
    """Connect with the client's session until a proxy accepts it. Raises Disconnected if it has expired."""

    def accepted() -> bool:
        try:
            client.reconnect(port)
        except Disconnected as refusal:
            if refusal.expired:
                raise
            return False
        return True

    wait_until(accepted, "the session continues", interval=0.1)


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
