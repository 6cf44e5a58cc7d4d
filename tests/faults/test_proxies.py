"""Proxies side by side on one etcd: in step with each other, undisturbed by other users of that etcd."""

import threading

from lab.client import blocking as zk
from lab.client.blocking import Client
from lab.servers import ZketcdServer

Pair = tuple[ZketcdServer, ZketcdServer]


def test_what_one_proxy_acknowledged_the_other_shows_after_sync(pair: Pair) -> None:
    with Client(pair[0].port) as writer, Client(pair[1].port) as reader:
        writer.create("/n")
        for number in range(100):
            stat = writer.write("/n", b"%d" % number)
            _, read = reader.send(zk.SYNC, zk.get("/n"))
            reader.receive()
            assert reader.result(read) == (b"%d" % number, stat)
            writer, reader = reader, writer


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
