"""A proxy whose lease has ended, and what happens to its sessions meanwhile.

They go on with its next incarnation; but what their clients, other proxies or the eldest have done about
them in between holds.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.client import blocking as zk
from lab.client.blocking import EPHEMERAL, SESSION_EXPIRED, SESSION_MOVED, Client, Disconnected, Reply
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import ctl, end_lease_of
from schema.entry import Kind
from tests.faults.agreement import assert_same, incarnations
from tests.faults.conftest import Start
from tests.faults.gateway import Append, Fate, Gateway

_PROXIES = "/zketcd/live/proxy/"
_SHORT_MS = 1_000


@pytest.fixture
def gateways(own_etcd_server: EtcdServer) -> Iterator[tuple[Gateway, Gateway]]:
    """The ways of two proxies to etcd."""
    with Gateway(own_etcd_server) as first, Gateway(own_etcd_server) as second:
        yield first, second


def holding(*kinds: Kind) -> "Holding":
    """Hold back entries with requests of these kinds."""
    return Holding(*kinds)


class Holding:
    """Holds back entries with requests of some kinds."""

    def __init__(self, *kinds: Kind) -> None:
        self._kinds = set(kinds)

    def __call__(self, append: Append) -> Fate:
        """What becomes of an append."""
        return Fate.PASS if self._kinds.isdisjoint(append.kinds) else Fate.HOLD


def owner(client: Client, path: str) -> int:
    """The session that a node hangs on; 0 if there is no such node."""
    client.sync()
    stat = client.stat(path)
    return stat.ephemeral_owner if stat else 0


def refused(replies: list[Reply]) -> bool:
    """Whether none of these replies says that something was done."""
    return {reply.err for reply in replies} <= {SESSION_MOVED, SESSION_EXPIRED}


@pytest.mark.parametrize("lease_ends", [False, True])
def test_writes_of_a_paused_proxy_whose_clients_have_moved(
    start: Start, own_etcd_server: EtcdServer, gateways: tuple[Gateway, Gateway], lease_ends: bool
) -> None:
    """Some are on their way, the others are still in its queue; when it wakes, none of them counts."""
    etcd, gateway = own_etcd_server, gateways[0]
    with ExitStack() as stack:
        other, proxy = start(etcd), start(gateway.endpoint, proxy_lease=30)
        name = incarnations(etcd)[-1]
        moving = [stack.enter_context(Client(proxy.port)) for _ in range(3)]
        staying = [stack.enter_context(Client(proxy.port)) for _ in range(3)]
        for number, client in enumerate((*moving, *staying)):
            client.create(f"/e{number}", b"", EPHEMERAL)
        gateway.decide(holding(Kind.CLIENT))
        sent = []
        # Two appends fill the window, what comes later waits in the proxy.
        for round_ in range(4):
            for number, client in enumerate((*moving, *staying)):
                requests = [zk.create(f"/{round_}-{number}"), zk.set_data(f"/e{number}", b"%d" % round_)]
                sent.append((client, client.send(*requests)))
            if round_ < 2:
                gateway.await_held(round_ + 1)
        proxy.pause()
        if lease_ends:
            end_lease_of(etcd, f"{_PROXIES}{name}")
        for number, client in enumerate(moving):
            client.reconnect(other.port)
            client.create(f"/{number}-moved", b"", EPHEMERAL)
            assert client.call(zk.set_data(f"/e{number}", b"new", 0)).version == 1
        gateway.release()
        proxy.resume()
        for client in moving:
            assert refused(client.until_closed(0))
        for client, xids in sent:
            if client in staying:
                for xid in xids:
                    client.result(xid)
        witness = stack.enter_context(Client(proxy.port))
        witness.sync()
        names = witness.children("/")[0]
        expected = {"zookeeper", *(f"e{number}" for number in range(6)), *(f"{n}-moved" for n in range(3))}
        assert names == expected | {f"{round_}-{number}" for round_ in range(4) for number in (3, 4, 5)}
        for number, client in enumerate(moving):
            # Nothing is stolen back.
            assert client.read(f"/e{number}")[0] == b"new"
            assert owner(witness, f"/{number}-moved") == owner(witness, f"/e{number}") == client.id
            client.create(f"/{number}-still", b"", EPHEMERAL)
        held = {row["session"]: row["proxy"] for row in ctl(etcd, "sessions")}
        assert len(set(held.values())) == 2
        for client in (*moving, *staying):
            client.close()
        witness.sync()
        assert not [name for name in witness.children("/")[0] if name.startswith("e") or "moved" in name]


def test_what_happens_before_the_carry_over_holds(
    start: Start, own_etcd_server: EtcdServer, gateways: tuple[Gateway, Gateway]
) -> None:
    """Sessions that were attached elsewhere, closed there, or ended by the eldest, are not carried over."""
    etcd, gateway = own_etcd_server, gateways[0]
    with ExitStack() as stack:
        eldest, proxy = start(etcd), start(gateway.endpoint)
        name = incarnations(etcd)[-1]
        moved, closed, stays, again, closing = (stack.enter_context(Client(proxy.port)) for _ in range(5))
        ended = stack.enter_context(Client(proxy.port, _SHORT_MS))
        witness = stack.enter_context(Client(eldest.port))
        clients = {"moved": moved, "closed": closed, "stays": stays, "again": again, "closing": closing}
        for path, client in {**clients, "ended": ended}.items():
            client.create(f"/{path}", b"", EPHEMERAL)
        gateway.decide(holding(Kind.CARRY_OVER))
        end_lease_of(etcd, f"{_PROXIES}{name}")
        gateway.await_held()
        moved.reconnect(eldest.port)
        closed.reconnect(eldest.port)
        closed.close()

        # Its timeout is shorter than a lease: others have to take it for over at once.
        def pinged() -> bool:
            for client in (stays, ended):
                try:
                    client.ping()
                except Disconnected:
                    if client is stays:
                        raise
            return not owner(witness, "/ended")

        wait_until(pinged, "the eldest has ended a session", interval=0.1)
        # All that is asked of the waiting proxy comes behind the carry over.
        wrote = stays.send(zk.set_data("/stays", b"waited", 0))
        (bye,) = closing.send(zk.CLOSE)
        coming = threading.Thread(target=again.reconnect, args=(proxy.port,))
        coming.start()
        gateway.release()
        assert stays.result(wrote[0]).version == 1
        closing.result(bye)
        coming.join()
        moved.until_closed(0)
        ended.until_closed()
        with pytest.raises(Disconnected, match="expired"):
            ended.reconnect(proxy.port)
        with pytest.raises(Disconnected, match="expired"):
            closed.reconnect(proxy.port)
        for path, client in clients.items():
            assert owner(witness, f"/{path}") == (0 if path in {"closed", "closing"} else client.id), path
        for path in ("moved", "stays", "again"):
            clients[path].create(f"/{path}-more", b"", EPHEMERAL)
        assert_same(witness, moved, stays, again)


def test_what_comes_after_the_carry_over_does_not_hold(
    start: Start, own_etcd_server: EtcdServer, gateways: tuple[Gateway, Gateway]
) -> None:
    """The eldest's close names the incarnation that is over; a client that comes late gets its session."""
    etcd = own_etcd_server
    with ExitStack() as stack:
        eldest, proxy = start(gateways[0].endpoint), start(gateways[1].endpoint)
        name = incarnations(etcd)[-1]
        short = stack.enter_context(Client(proxy.port, _SHORT_MS))
        long = stack.enter_context(Client(proxy.port))
        short.create("/short", b"", EPHEMERAL)
        long.create("/long", b"", EPHEMERAL)
        gateways[0].decide(holding(Kind.CLOSE, Kind.ATTACH))
        gateways[1].decide(holding(Kind.CARRY_OVER))
        end_lease_of(etcd, f"{_PROXIES}{name}")

        def kinds_held(gateway: Gateway) -> set[Kind]:
            short.ping()
            return {kind for append in list(gateway.held) for kind in append.kinds}

        wait_until(lambda: kinds_held(gateways[1]) == {Kind.CARRY_OVER}, "the carry over")
        wait_until(lambda: kinds_held(gateways[0]) == {Kind.CLOSE}, "the eldest's close")
        moving = threading.Thread(target=long.reconnect, args=(eldest.port,))
        moving.start()
        wait_until(lambda: kinds_held(gateways[0]) == {Kind.CLOSE, Kind.ATTACH}, "the attach")
        gateways[1].release()
        short.write("/short", b"carried over", 0)
        gateways[0].release()
        moving.join()
        long.until_closed(0)
        long.write("/long", b"moved", 0)
        for _ in range(10):
            assert owner(short, "/short") == short.id
            short.write("/short", b"still")
            assert owner(long, "/short") == short.id
        assert owner(short, "/long") == long.id
        assert_same(short, long)


def test_carry_overs_closes_and_moves_at_random(
    start: Start, own_etcd_server: EtcdServer, gateways: tuple[Gateway, Gateway]
) -> None:
    """A session that lives on has done each of its writes once, and has its ephemeral, wherever it is."""
    etcd = own_etcd_server
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    kinds = (Kind.CARRY_OVER, Kind.ATTACH, Kind.CLOSE, Kind.CLIENT)
    with ExitStack() as stack:
        proxies = [start(gateway.endpoint) for gateway in gateways]
        clients = [stack.enter_context(Client(chance.choice(proxies).port)) for _ in range(6)]
        versions = dict.fromkeys(clients, 0)
        for number, client in enumerate(clients):
            client.create(f"/{number}", b"", EPHEMERAL)

        def use(client: Client, port: int, *, moves: bool) -> None:
            number = clients.index(client)
            if moves:
                client.reconnect(port)
            for _ in range(3):
                versions[client] += 1
                version = client.write(f"/{number}", b"").version
                assert version == versions[client], f"seed {seed}"

        failures: list[BaseException] = []

        def guarded(client: Client, port: int, *, moves: bool) -> None:
            try:
                use(client, port, moves=moves)
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                failures.append(error)

        for _ in range(8):
            for gateway in gateways:
                gateway.decide(holding(*chance.sample(kinds, chance.randrange(3))))
            for name in chance.sample(incarnations(etcd), chance.choice((1, 1, 2))):
                end_lease_of(etcd, f"{_PROXIES}{name}")
            threads = []
            for client in clients:
                port = chance.choice(proxies).port
                moves = chance.random() < 0.5
                threads.append(threading.Thread(target=guarded, args=(client, port), kwargs={"moves": moves}))
                threads[-1].start()
            time.sleep(chance.uniform(0, 0.6))
            for gateway in chance.sample(gateways, 2):
                gateway.release()
            for thread in threads:
                thread.join()
            assert not failures, f"seed {seed}: {failures}"
            wait_until(lambda: len(incarnations(etcd)) == 2, "both have registered again")
        for number, client in enumerate(clients):
            assert owner(client, f"/{number}") == client.id, f"seed {seed}"
        witnesses = [stack.enter_context(Client(proxy.port)) for proxy in proxies]
        assert_same(*witnesses, stack.enter_context(Client(start(etcd).port)))
        for client in clients:
            client.close()
        for witness in witnesses:
            witness.sync()
            assert witness.children("/")[0] == {"zookeeper"}
