"""etcd is silent: clients that allow it are served read-only, and a ClickHouse is turned away."""

import socket
import struct
from contextlib import ExitStack

import pytest
from kazoo.client import KazooState, KeeperState
from kazoo.exceptions import NotReadOnlyCallError

from lab.client.blocking import EPHEMERAL, Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.four_letter import four_letter_word
from tests.faults.conftest import Start
from tests.kazoo import kazoo

_WIDE = struct.pack(">iibqiqi", 45, 11, 0, 0, 4000, 0, 16) + bytes(16) + b"\1"


def _version(proxy: ZketcdServer) -> int:
    """The protocol version that a ClickHouse with 64-bit xids is answered."""
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as connection:
        connection.sendall(_WIDE)
        version: int = struct.unpack(">ii", connection.recv(8, socket.MSG_WAITALL))[1]
    return version


def _is(proxy: ZketcdServer, word: str) -> bool:
    return four_letter_word(proxy.port, "isro") == word


def test_reads_go_on_and_writes_come_back(start: Start, own_etcd_server: EtcdServer) -> None:
    proxy = start(own_etcd_server, read_only_mode="on")
    with ExitStack() as stack:
        writer = stack.enter_context(Client(proxy.port, 40_000))  # the longest: it is silent all the while
        writer.create("/a", b"data")
        writer.create("/mine", b"", EPHEMERAL)
        assert _version(proxy) == 11
        own_etcd_server.pause()
        stack.callback(own_etcd_server.resume)
        wait_until(lambda: _is(proxy, "ro"), "the proxy knows that etcd is silent")
        assert _version(proxy) == 42
        with pytest.raises(Disconnected):
            Client(proxy.port)
        states: list[str] = []
        reader = stack.enter_context(kazoo(proxy, read_only=True, timeout=4))
        reader.add_listener(states.append)
        assert reader.client_state == KeeperState.CONNECTED_RO
        assert reader.get("/a")[0] == b"data"
        with pytest.raises(NotReadOnlyCallError):
            reader.set("/a", b"new")
        own_etcd_server.resume()
        wait_until(lambda: reader.client_state == KeeperState.CONNECTED, "the reader may write")
        assert KazooState.LOST in states  # its read-only session was this server's own affair
        assert reader.set("/a", b"new").version == 1
        wait_until(lambda: _version(proxy) == 11, "a ClickHouse is served")
        # The session of before has lost nothing.
        assert writer.read("/a")[0] == b"new"
        assert writer.stat("/mine") is not None


def test_who_comes_before_the_silence_is_known_is_served_too(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    proxy = start(own_etcd_server, read_only_mode="on")
    with ExitStack() as stack:
        own_etcd_server.pause()
        stack.callback(own_etcd_server.resume)
        reader = stack.enter_context(kazoo(proxy, read_only=True, timeout=10, connection_retry=None))
        assert reader.client_state == KeeperState.CONNECTED_RO
        assert reader.exists("/zookeeper")
