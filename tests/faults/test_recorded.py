"""Real servers under concurrent clients: ZooKeeper's histories pass the checker, and so do zketcd's."""

import random
import threading
from collections.abc import Callable, Sequence

from lab.client.blocking import Disconnected
from lab.servers import ZketcdServer, ZooKeeperServer, wait_until
from proof.history import (
    AddWatch,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    History,
    Multi,
    SetData,
    Sync,
    check,
)
from proof.history import records as r
from tests.faults.recorded import RecordingClient

_CLIENTS = 4
_REQUESTS = 250
_NAMES = ("", "/a", "/b", "/q", "/a/x", "/a/y", "/q/x")


def _write(
    chance: random.Random, base: str, *, in_multi: bool = False
) -> r.Create | r.Delete | r.SetData | r.Check:
    path = base + chance.choice(_NAMES[1:])
    kind = chance.random()
    version = chance.choice((-1, -1, 0, 1))
    value = b"%d" % chance.getrandbits(60)
    if kind < 0.15 and in_multi:
        return Check(path, version)
    if kind < 0.5:
        return Create(path, value, ephemeral=chance.random() < 0.2)
    if kind < 0.6:
        return Create(base + "/q/n-", value, chance.random() < 0.5, True)
    return Delete(path, version) if kind < 0.8 else SetData(path, value, version)


def _request(chance: random.Random, base: str) -> r.Request:
    kind = chance.random()
    path = base + chance.choice(_NAMES)
    watch = chance.random() < 0.4
    reads: Sequence[r.Request] = (GetData(path, watch), Exists(path, watch), GetChildren(path, watch))
    if kind < 0.4:
        return chance.choice(reads)
    if kind < 0.44:
        return AddWatch(path, recursive=chance.random() < 0.5)
    if kind < 0.48:
        return Sync()
    if kind < 0.6:
        return Multi(tuple(_write(chance, base, in_multi=True) for _ in range(chance.randrange(1, 4))))
    return _write(chance, base)


def _history_of(ports: Sequence[int], base: str, fault: Callable[[], None] | None = None) -> History:
    """Clients in threads, spread over the ports; then all sessions are closed.

    `fault` happens while they work. A client that loses its server goes on with its session at the next one.
    """
    history, lock = History(), threading.Lock()
    clients = [RecordingClient(ports[number % len(ports)], history, lock) for number in range(_CLIENTS)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        try:
            for done in range(_REQUESTS):
                if number == 0 and done == _REQUESTS // 2 and fault is not None:
                    fault()
                try:
                    clients[number].call(_request(chance, base))
                except (Disconnected, OSError):
                    wait_until(lambda: _moved(clients[number], chance.choice(ports)), "a server that goes on")
            clients[number].call(CloseSession())
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(failure)

    clients[0].call(Create(base))
    for client in clients:
        client.call(Sync())
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.client.drop()
    assert failures == []
    assert sum(isinstance(record, r.Event) for record in history.records) > 50
    return history


def _moved(client: RecordingClient, port: int) -> bool:
    try:
        client.reconnect(port)
    except (Disconnected, OSError):
        return False
    return True


def test_what_real_zookeeper_shows_is_right(zookeeper_server: ZooKeeperServer) -> None:
    """Else the checker asks for more than ZooKeeper promises."""
    assert check(_history_of([zookeeper_server.port], "/proof")) == []


def test_what_two_proxies_show_is_right(zketcd_pair: tuple[ZketcdServer, ZketcdServer]) -> None:
    assert check(_history_of([proxy.port for proxy in zketcd_pair], "/proof")) == []


def test_what_clients_of_a_killed_proxy_see_is_right(zketcd_pair: tuple[ZketcdServer, ZketcdServer]) -> None:
    """Their sessions go on at the other proxy; what had no answer counted once or never."""
    mortal, other = zketcd_pair
    history = _history_of([mortal.port, other.port], "/proof", mortal.kill)
    assert sum(isinstance(record, r.Attached) for record in history.records) >= _CLIENTS // 2
    assert check(history) == []
