"""Quotas over several proxies: all show the same numbers, and nothing passes a hard limit."""

from lab.client import blocking as zk
from lab.client.blocking import Client
from lab.servers import EtcdServer
from tests.faults.conftest import Start

QUOTA_EXCEEDED = -125
_STATS = "/zookeeper/quota/q/zookeeper_stats"


def test_one_quota_over_two_proxies(start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    limit, depth = 100, 10
    pair = [start(etcd_server, prefix=etcd_prefix, enforce_quota="true") for _ in range(2)]
    with Client(pair[0].port) as first, Client(pair[1].port) as second:
        for path in ("/q", "/zookeeper/quota/q"):
            first.create(path)
        first.create("/zookeeper/quota/q/zookeeper_limits", b"countHardLimit=%d" % limit)
        first.create(_STATS, b"count=0,bytes=0")
        second.sync()
        rounds = 0
        refused = 0
        while refused < 2 * depth:
            flying = [
                (
                    client,
                    client.send(*(zk.create(f"/q/{kind}{rounds}-{place}", b"x") for place in range(depth))),
                )
                for kind, client in zip("ab", (first, second), strict=True)
            ]
            codes = [client.reply_to(xid).err for client, xids in flying for xid in xids]
            assert set(codes) <= {zk.OK, QUOTA_EXCEEDED}
            refused = codes.count(QUOTA_EXCEEDED)
            rounds += 1
            for client in (first, second):
                client.sync()
        count = len(first.children("/q")[0]) + 1
        assert count == limit, "exact, however many wrote at once"
        late = start(etcd_server, prefix=etcd_prefix)
        with Client(late.port) as third:
            for client in (first, second, third):
                data, stat = client.read(_STATS)
                assert data == b"count=%d,bytes=%d" % (count, count - 1)
                assert (stat.version, stat.data_length) == (0, len(data))
            third.create("/q/more")  # by a proxy that does not enforce them
            first.sync()
            assert first.read(_STATS)[0] == b"count=%d,bytes=%d" % (count + 1, count - 1)
            assert second.refusal(zk.set_data("/q", b"more")) == zk.OK
            assert first.refusal(zk.create("/q/less")) == QUOTA_EXCEEDED
