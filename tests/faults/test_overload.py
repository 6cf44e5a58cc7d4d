"""More than a proxy can take at once: it stops reading and starts again, and its memory stays bounded."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from codec.client import children, create, get, multi, packet, set_data
from lab.client.blocking import CHILDREN, Client, events_of
from lab.oracle import wire
from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until
from lab.servers.operator import metric
from lab.servers.tls import Authority
from tests.faults.conftest import Start

_MIB = 1 << 20
_MANY = 60_000  # children, whose names are sent in many slices


def memory_of(proxy: ZketcdServer) -> int:
    """Resident bytes, without those of files: a forked process maps its libraries as it needs them."""
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def test_while_etcd_stands_still_no_more_is_read_than_may_wait(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    admin = free_port()
    proxy = start(own_etcd_server, global_outstanding_limit=50, admin_listen=f"127.0.0.1:{admin}")
    count = 1500  # of each writer, of 1 kB
    with ExitStack() as stack:
        reader, *writers = (stack.enter_context(Client(proxy.port)) for _ in range(10))
        reader.create("/a")
        own_etcd_server.pause()
        sent: list[list[int]] = []
        requests = [set_data("/a", bytes(1000))] * count
        senders = [
            threading.Thread(target=lambda one=one: sent.append(one.send(*requests))) for one in writers
        ]
        for sender in senders:
            sender.start()
        wait_until(lambda: metric(admin, "outstanding_requests") > 50, "the limit is reached")
        # Reads are answered all the while. Each writer is read from once: a chunk of 256 KiB.
        for _ in range(50):
            assert reader.read("/a")[0] == b""
        assert metric(admin, "outstanding_requests") < 50 + len(writers) * 300
        own_etcd_server.resume()
        for writer in writers:
            for xid in range(1, count + 1):
                writer.result(xid)
        for sender in senders:
            sender.join()
        assert sent == [list(range(1, count + 1))] * len(writers)
        reader.sync()
        assert reader.read("/a")[1].version == len(writers) * count


@pytest.mark.parametrize("secure", [False, True])
def test_a_client_that_does_not_read_its_big_answers(
    start: Start, own_etcd_server: EtcdServer, tmp_path: Path, secure: bool
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "127.0.0.1")
    tls = {"tls_cert": pair.cert, "tls_key": pair.key, "tls_client_auth": "none"} if secure else {}
    proxy = start(own_etcd_server, **tls)
    with Client(proxy.port) as other:
        other.create("/big", bytes(_MIB // 2))
        other.read("/big")
        before = memory_of(proxy)
        slow = wire.Connection(proxy.port, 60.0, authority.client_context() if secure else None)
        assert isinstance(slow.connect(timeout_ms=40_000), wire.Session)
        request = get("/big")
        count = 400  # 200 MiB of answers
        for xid in range(1, count + 1):
            slow.send(packet(xid, request))
        for _ in range(20):
            assert len(other.read("/big")[0]) == _MIB // 2
        assert memory_of(proxy) - before < 32 * _MIB
        for xid in range(1, count + 1):
            reply = slow.receive()
            assert isinstance(reply, wire.Reply)
            assert (reply.xid, reply.err) == (xid, 0)
        assert memory_of(proxy) - before < 32 * _MIB
        slow.close()


def test_a_large_directory(start: Start, own_etcd_server: EtcdServer) -> None:
    proxy = start(own_etcd_server)
    with ExitStack() as stack:
        first = stack.enter_context(Client(proxy.port))
        first.create("/many")
        parts = (
            [create(f"/many/{number}") for number in range(start, start + 1000)]
            for start in range(0, _MANY, 1000)
        )
        for xid in first.send(*map(multi, parts)):
            first.result(xid)
        everything = set(map(str, range(_MANY)))
        assert first.children("/many")[0] == everything
        others = [stack.enter_context(Client(proxy.port)) for _ in range(3)]
        asked = [(other, other.send(children("/many", watch=True))) for other in others]
        for other, (xid,) in asked:
            assert set(other.result(xid).names) == everything
        first.create("/many/more")
        for other in others:
            assert events_of(other, 1) == [(CHILDREN, "/many")]
            assert other.children("/many")[0] == everything | {"more"}
