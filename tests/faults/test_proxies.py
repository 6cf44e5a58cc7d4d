"""Proxies side by side on one etcd: in step with each other, undisturbed by other users of that etcd."""

import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.client import blocking as zk
from lab.client.blocking import CHANGED, CHILDREN, CREATED, DELETED, EPHEMERAL, SEQUENTIAL, Client, events_of
from lab.oracle.wire import Closed, Connection
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import end_lease_of, keys_of
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


def test_all_writes_of_all_proxies_to_one_node_are_done_once(pair: Pair) -> None:
    each = 50
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(pair[number % 2].port)) for number in range(6)]
        clients[0].create("/n")
        clients[0].create("/n/c")
        for client in clients:
            client.sync()
        requests = [zk.set_data("/n", b"x"), zk.create("/n/c/s-", b"", SEQUENTIAL)] * each
        sent = [client.send(*requests) for client in clients]
        versions: list[int] = []
        names: list[str] = []
        for client, xids in zip(clients, sent, strict=True):
            mine = [client.result(xid) for xid in xids]
            versions += [stat.version for stat in mine[::2]]
            names += mine[1::2]
        total = each * len(clients)
        assert sorted(versions) == list(range(1, total + 1))
        assert sorted(names) == [f"/n/c/s-{number:010d}" for number in range(total)]
        for client in clients[:2]:
            client.sync()
            assert client.read("/n")[1].version == total
            children, stat = client.children("/n/c")
            assert (len(children), stat.cversion) == (total, total)


def test_conflicting_multis_of_all_proxies_are_done_whole_and_in_some_order(pair: Pair) -> None:
    """Each moves a coin from a node to the next: nothing is lost or doubled, whoever wins."""
    places = 5
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(pair[number % 2].port)) for number in range(4)]
        clients[0].create("/coins")
        for place in range(places):
            clients[0].create(f"/coins/{place}")
        clients[0].create("/coins/0/coin")

        def move(client: Client, source: int) -> None:
            target = (source + 1) % places
            client.send(
                zk.multi([zk.delete(f"/coins/{source}/coin"), zk.create(f"/coins/{target}/coin")]),
                zk.SYNC,
            )

        moves = 0
        for round_ in range(40):
            for client in clients:
                move(client, round_ % places)
            won = 0
            for client in clients:
                reply = client.receive()
                client.receive()
                parts = zk.parts_of(getattr(reply, "body", b""))
                won += all(part.error == 0 for part in parts)
            moves += won
            assert won == 1, "exactly one of them found the coin there"
        for client in clients:
            client.sync()
            where = [place for place in range(places) if client.children(f"/coins/{place}")[0]]
            assert where == [moves % places]


def test_a_proxy_that_slept_until_it_was_taken_for_dead_goes_on(
    pair: Pair, start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """Its lease ran out while it slept: it goes on as another incarnation, and nobody notices."""
    proxies = f"{etcd_prefix}/live/proxy/"
    first, second = pair
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(first.port)) for _ in range(4)]
        clients[0].create("/n")
        for client in clients:
            client.sync()
            client.create(f"/{client.id}", mode=EPHEMERAL)
        first.pause()
        requests = [zk.set_data("/n", b"x")] * 20
        sent = [client.send(*requests) for client in clients]
        known = set(keys_of(etcd_server, proxies))
        for key in known:
            end_lease_of(etcd_server, key)  # both: a key does not tell whose it is
        wait_until(lambda: len(keys_of(etcd_server, proxies)) == 1, "the waking one is back")
        start(etcd_server, prefix=etcd_prefix).stop()
        first.resume()
        versions = [
            client.result(xid).version for client, xids in zip(clients, sent, strict=True) for xid in xids
        ]
        assert sorted(versions) == list(range(1, 81))
        assert len(keys_of(etcd_server, proxies)) == 2, "the sleeper is back"
        assert not known & set(keys_of(etcd_server, proxies))
        with Client(second.port) as witness:
            witness.sync()
            assert witness.read("/n")[1].version == 80
            for client in clients:
                stat = witness.stat(f"/{client.id}")
                assert stat is not None
                assert stat.ephemeral_owner == client.id
        assert "carrying sessions over" in first.log_text()


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
