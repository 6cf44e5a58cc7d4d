"""Proxies side by side on one etcd: in step with each other, undisturbed by other users of that etcd."""

import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.client import blocking as zk
from lab.client.blocking import CHANGED, CHILDREN, CREATED, DELETED, EPHEMERAL, Client, events_of
from lab.oracle.wire import Closed, Connection
from lab.servers import EtcdServer, ZketcdServer, wait_until
from tests.faults.conftest import Start

Pair = tuple[ZketcdServer, ZketcdServer]


def put(etcd: EtcdServer, key: str, value: bytes) -> None:
    """Put a key by etcd's JSON gateway."""
    pair = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}
    request = json.dumps(pair).encode()
    with urllib.request.urlopen(f"{etcd.endpoint}/v3/kv/put", request, timeout=30) as answer:
        answer.read()


@contextmanager
def busy_tenant(etcd: EtcdServer, prefixes: list[str]) -> Iterator[list[int]]:
    """Somebody who writes below these prefixes all the time; gives the number of writes so far."""
    over = threading.Event()
    count = [0]

    def write() -> None:
        while not over.is_set():
            for prefix in prefixes:
                put(etcd, f"{prefix}{count[0] % 50}", b"x" * 100)
            count[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


def test_what_one_proxy_acknowledged_the_other_shows_after_sync(pair: Pair) -> None:
    with Client(pair[0].port) as writer, Client(pair[1].port) as reader:
        writer.create("/n")
        for number in range(100):
            stat = writer.write("/n", b"%d" % number)
            _, read = reader.send(zk.SYNC, zk.get("/n"))
            reader.receive()
            assert reader.result(read) == (b"%d" % number, stat)
            writer, reader = reader, writer


def test_a_proxy_that_slept_shows_after_sync_what_was_done_meanwhile(pair: Pair) -> None:
    with Client(pair[0].port) as writer, Client(pair[1].port) as reader:
        writer.create("/n")
        reader.sync()
        reader.read("/n", watch=True)
        pair[1].pause()
        sync, read = reader.send(zk.SYNC, zk.get("/n"))
        xids = writer.send(*(zk.set_data("/n", b"%d" % number) for number in range(200)))
        stats = [writer.result(xid) for xid in xids]
        pair[1].resume()
        reader.result(sync)
        assert reader.result(read) == (b"199", stats[-1])
        assert events_of(reader, 1) == [(CHANGED, "/n")]
        assert reader.events[0].zxid == stats[0].mzxid


def test_a_client_ahead_of_a_proxy_sees_no_older_state_on_it(pair: Pair) -> None:
    with Client(pair[0].port) as client:
        client.create("/n")
        for number in range(40):
            pair[1].pause()
            stat = client.write("/n", b"%d" % number)
            threading.Timer(0.01, pair[1].resume).start()
            client.reconnect(pair[1].port)
            assert client.read("/n") == (b"%d" % number, stat)
            client.reconnect(pair[0].port)


def test_a_client_from_the_future_is_not_served(pair: Pair) -> None:
    with Client(pair[0].port) as client:
        client.create("/n")
        for ahead in (1_000_000, 1 << 40, (1 << 63) - 1):
            connection = Connection(pair[0].port)
            assert connection.connect(last_zxid=ahead) == Closed(), "closed without a word, as by ZooKeeper"
            connection.close()
        assert client.session is not None
        connection = Connection(pair[1].port)
        session = client.session
        answer = connection.connect(session=session.session, password=session.password, last_zxid=1 << 40)
        assert answer == Closed()
        connection.close()
        client.create("/its-session-stays", mode=EPHEMERAL)


def test_nobody_is_disturbed_by_other_users_of_the_etcd(start: Start, own_etcd_server: EtcdServer) -> None:
    """Others' keys lie beside ours, below prefixes that begin with ours; one of them is a tree as well."""
    etcd = own_etcd_server
    pair = [start(etcd, prefix="/zketcd") for _ in range(2)]
    neighbour = start(etcd, prefix="/zketcd2")
    others = ["/zketcd-more/", "/zketcd0/live/log/", "/zketc/live/log/", "/other/"]
    with ExitStack() as stack:
        writes = stack.enter_context(busy_tenant(etcd, others))
        writer, reader = (stack.enter_context(Client(proxy.port)) for proxy in pair)
        stranger = stack.enter_context(Client(neighbour.port))
        idle = stack.enter_context(Client(pair[0].port, 3000))
        idle.create("/idle", mode=EPHEMERAL)
        stranger.create("/n", b"strange")
        stranger.create("/strange", mode=EPHEMERAL)
        reader.sync()
        assert reader.stat("/n", watch=True) is None
        assert reader.stat("/idle", watch=True)
        reader.children("/", watch=True)
        stranger.write("/n", b"stranger")
        before = writes[0]
        writer.create("/n", b"ours")
        for number in range(100):
            stat = writer.write("/n", b"%d" % number, number)
            reader.sync()
            assert reader.read("/n") == (b"%d" % number, stat)
        assert sorted(events_of(reader, 3)) == [(CREATED, "/n"), (DELETED, "/idle"), (CHILDREN, "/")]
        wait_until(lambda: writes[0] > before + 10, "the others write as well")
        assert reader.children("/")[0] == {"zookeeper", "n"}
        assert stranger.children("/")[0] == {"zookeeper", "n", "strange"}
        assert stranger.read("/n")[0] == b"stranger"
        zxids = [message.zxid for message in reader.log]
        assert zxids == sorted(zxids)
        # What a proxy loads when it starts is its own as well.
        third = start(etcd, prefix="/zketcd")
        late = stack.enter_context(Client(third.port))
        assert late.children("/")[0] == {"zookeeper", "n"}
        with pytest.raises(zk.Disconnected, match="expired"):
            stranger.reconnect(third.port)  # a session of the other tree
