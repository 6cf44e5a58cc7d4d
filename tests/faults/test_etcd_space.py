"""etcd's quota is used up: reads and endings still work, writes are refused; with space again, all works."""

import random
from collections.abc import Iterator

import pytest

from codec import client as zk
from lab.client.blocking import EPHEMERAL, NODE_EXISTS, OK, SYSTEM_ERROR, Client, Disconnected
from lab.servers import EtcdServer, free_port, wait_until
from lab.servers.operator import ask, compact, etcdctl, keys_of
from tests.faults.agreement import assert_same, truncate
from tests.faults.conftest import Start

_QUOTA = 4 << 20
_DATA = random.Random(1).randbytes(100_000)
_SHORT_MS = 2_000
_LONG_MS = 40_000


@pytest.fixture
def small_etcd() -> Iterator[EtcdServer]:
    """An etcd that is soon full."""
    with EtcdServer(f"--quota-backend-bytes={_QUOTA}") as etcd:
        yield etcd


def _fill(client: Client, *others: Client) -> None:
    """Write until etcd is full, always the same node; etcd counts what it has committed, every 100 ms.

    The proxy must have no reserve. The others stay alive, however slow the disk is.
    """
    client.create("/big")

    def refused() -> bool:
        for other in others:
            other.ping()
        return client.refusal(zk.set_data("/big", _DATA)) != OK

    wait_until(refused, "etcd is full", timeout=120, interval=0)


def _make_space(etcd: EtcdServer, client: Client) -> None:
    """What docs/etcd.md tells operators to do."""
    truncate(etcd, client)
    compact(etcd)
    etcdctl(etcd, "defrag")
    etcdctl(etcd, "alarm", "disarm")


def test_a_proxy_that_starts_on_a_full_etcd(start: Start, small_etcd: EtcdServer) -> None:
    """It cannot register, since etcd grants no leases then, so it takes no sessions until there is space."""
    admin = {name: free_port() for name in ("lasting", "second")}
    first = start(small_etcd, etcd_reserve=0)
    lasting = start(small_etcd, etcd_reserve=0, admin_listen=f"127.0.0.1:{admin['lasting']}")
    with (
        Client(first.port, _LONG_MS) as client,
        Client(first.port, _SHORT_MS) as orphan,
        Client(lasting.port) as other,
    ):
        client.create("/a", b"data")
        client.create("/e", b"", EPHEMERAL)
        orphan.create("/orphan", b"", EPHEMERAL)
        client.sync()
        _fill(client)
        first.kill()
        second = start(small_etcd, etcd_reserve=0, admin_listen=f"127.0.0.1:{admin['second']}")
        status, body = ask(admin["second"], "/ready")
        assert status == 503
        assert "not registered in etcd" in body["details"]["reason"]
        assert "etcd's quota is used up" in body["details"]["reason"]
        assert ask(admin["second"], "/live")[0] == 200
        wait_until(lambda: ask(admin["lasting"], "/ready")[0] == 200, "the other is ready")
        # At once: a client that moves to another proxy must not be called back by this one later.
        with pytest.raises(Disconnected):
            client.reconnect(second.port)
        assert "it got no session in its timeout" not in second.log_text()
        client.reconnect(lasting.port)
        client.sync()
        assert client.read("/a")[0] == b"data"
        assert client.refusal(zk.set_data("/a", b"more")) == SYSTEM_ERROR
        wait_until(lambda: client.stat("/orphan") is None, "the end of a session of the first proxy")
        _make_space(small_etcd, other)
        wait_until(lambda: client.refusal(zk.set_data("/a", b"more")) == 0, "writes go on", interval=0.1)
        wait_until(
            lambda: len(keys_of(small_etcd, "/zketcd/live/proxy/")) == 2, "the proxy registers", interval=0.2
        )
        wait_until(lambda: ask(admin["second"], "/ready")[0] == 200, "it is ready")
        assert client.owner("/e") == client.id
        client.reconnect(second.port)
        client.close()
        with Client(second.port) as late:
            assert late.stat("/e") is None


def test_a_nearly_full_etcd_is_no_outage_and_comes_back_by_deletes_alone(start: Start) -> None:
    """No operator compacts by hand, defragments or disarms: etcd never raises its alarm."""
    compaction = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=1s")
    with EtcdServer(f"--quota-backend-bytes={12 * _QUOTA}", *compaction) as etcd:
        proxy = start(etcd)
        with Client(proxy.port) as client, Client(proxy.port, _SHORT_MS) as mortal:
            client.create("/n")
            mortal.create("/ephemeral", b"", EPHEMERAL)
            made: list[str] = []

            def refused() -> bool:
                paths = [f"/n/{len(made) + number}" for number in range(10)]
                xids = client.send(*(zk.create(path, _DATA[:10_000]) for path in paths))
                errors = [client.reply_to(xid).err for xid in xids]
                made.extend(path for path, error in zip(paths, errors, strict=True) if error == OK)
                return errors[-1] != OK

            wait_until(refused, "the reserve is touched", timeout=120, interval=0)
            with Client(proxy.port) as other:  # sessions are opened, continued and ended
                other.reconnect(proxy.port)
                assert other.refusal(zk.create("/e", _DATA)) == SYSTEM_ERROR
                assert (
                    other.refusal(zk.create("/small")) == OK
                )  # to delete, some clients create something first
                assert other.refusal(zk.create("/mine", b"", EPHEMERAL)) == OK  # so clients can start again
                assert other.refusal(zk.create("/n")) == NODE_EXISTS
                other.write("/n/0", b"smaller")
                assert other.refusal(zk.set_data("/n/0", _DATA)) == SYSTEM_ERROR
                assert other.refusal(zk.delete(made.pop())) == OK
            wait_until(lambda: client.stat("/ephemeral") is None, "the end of a silent session")
            assert client.refusal(zk.create("/e", _DATA)) == SYSTEM_ERROR
            for xid in client.send(*map(zk.delete, made)):
                assert client.reply_to(xid).err == OK
            wait_until(
                lambda: client.refusal(zk.create("/e", _DATA)) == OK, "the tree may grow", interval=0.2
            )
            assert etcdctl(etcd, "alarm", "list") == ""
            assert proxy.log_text().count("etcd is nearly full") == 1
            with Client(start(etcd).port) as late:
                assert_same(client, late)
