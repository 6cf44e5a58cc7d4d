"""A proxy whose lease has ended, and what happens to its sessions meanwhile.

They go on with its next incarnation; but what their clients, other proxies or the eldest have done about
them in between holds.
"""

import threading
from collections.abc import Callable
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


def holding(kind: Kind) -> Callable[[Append], Fate]:
    """Hold back entries with requests of this kind."""
    return lambda append: Fate.HOLD if kind in append.kinds else Fate.PASS


def owner(client: Client, path: str) -> int:
    """The session that a node belongs to now; 0 if there is no such node."""
    client.sync()
    return client.owner(path)


def refused(replies: list[Reply]) -> bool:
    """Whether none of these replies says that something was done."""
    return {reply.err for reply in replies} <= {SESSION_MOVED, SESSION_EXPIRED}


@pytest.mark.parametrize("lease_ends", [False, True])
def test_writes_of_a_paused_proxy_whose_clients_have_moved(
    start: Start, own_etcd_server: EtcdServer, gateway: Gateway, lease_ends: bool
) -> None:
    """Some are on their way, the others are still in its queue; when it wakes, none of them counts."""
    etcd = own_etcd_server
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
    start: Start, own_etcd_server: EtcdServer, gateway: Gateway
) -> None:
    """Sessions that were attached elsewhere, closed there, or ended by the eldest, are not carried over."""
    etcd = own_etcd_server
    with ExitStack() as stack:
        eldest, proxy = start(etcd), start(gateway.endpoint)
        name = incarnations(etcd)[-1]
        moved, closed, stays, again, closing = (stack.enter_context(Client(proxy.port)) for _ in range(5))
        witness = stack.enter_context(Client(eldest.port))
        clients = {"moved": moved, "closed": closed, "stays": stays, "again": again, "closing": closing}
        for path, client in clients.items():
            client.create(f"/{path}", b"", EPHEMERAL)
        ended = stack.enter_context(Client(proxy.port, _SHORT_MS))
        ended.create("/ended", b"", EPHEMERAL)
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
