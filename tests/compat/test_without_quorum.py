"""A server that serves no new clients, compared with a ZooKeeper of three whose other two never start."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.oracle import requests, wire
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, free_port, wait_until
from lab.servers.four_letter import four_letter_word
from lab.servers.operator import ask
from proxy.options import words

pytestmark = pytest.mark.real

_NOT_SERVING = "This ZooKeeper instance is not currently serving requests"
_MASK = bytes(7) + b"\5"


@contextmanager
def _alone(*, read_only: bool) -> Iterator[int]:
    """The port of a ZooKeeper that waits for a quorum. To open read-only sessions it needs local ones."""
    settings = {f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}" for number in (1, 2, 3)}
    server = ZooKeeperServer(
        settings={**settings, "initLimit": "5", "syncLimit": "2", "localSessionsEnabled": "true"},
        system_properties={"readonlymode.enabled": str(read_only).lower()},
    )
    with ExitStack() as stack:
        stack.callback(server.close)
        server.data_dir.mkdir(exist_ok=True)
        (server.data_dir / "myid").write_text("1")
        server.launch()
        _wait_for(server.port, "isro", "ro" if read_only else "null")
        yield server.port


def _wait_for(port: int, word: str, answer: str) -> None:
    def is_there() -> bool:
        try:
            return four_letter_word(port, word) == answer
        except OSError:  # the port is not open yet
            return False

    wait_until(is_there, f"{word} is answered with {answer}", 90)


def _said(port: int, word: str) -> str:
    connection = wire.Connection(port)
    connection.send(word.encode() + (_MASK if word == "stmk" else b""))
    answer = connection.receive_rest().decode()
    connection.close()
    return answer


def _masked(answer: str) -> str:
    """Without what differs between two servers: numbers, the version, and Keeper's lines of `dirs`."""
    answer = re.sub(r"(?m)^(snapshot|log)_dir_size: \d+\n", "", answer)
    answer = re.sub(r"(?m)^Zookeeper version: .*$", "Zookeeper version", answer)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", answer)


def _connected(port: int, *, read_only: bool) -> bytes | wire.Closed | wire.Silent:
    """The answer to a connect request."""
    connection = wire.Connection(port)
    connection.send(wire.frame(wire.pack_connect()[:-1] + bytes([read_only])))
    answer = connection.receive_frame()
    connection.close()
    return answer


def _check_alike(real: int, ours: int) -> None:
    """Neither serves."""
    for word in sorted(words.ZOOKEEPER.keys() - {"envi"}):
        answer = _said(ours, word)
        assert answer == _said(real, word), word
        assert answer.startswith(_NOT_SERVING) is not words.WORDS[word].without_quorum
    assert _said(ours, "envi").startswith("Environment:\n")
    assert not any(_said(ours, word).startswith("This ") for word in words.KEEPER)
    for read_only in (False, True):
        for port in (real, ours):
            assert isinstance(_connected(port, read_only=read_only), wire.Closed)


def _check_admin(admin: int) -> None:
    assert ask(admin, "/live")[0] == 200
    assert ask(admin, "/ready")[0] == 503
    for command in ("ruok", "srvr", "mntr"):
        assert ask(admin, f"/commands/{command}") == (200, {"command": command, "error": _NOT_SERVING})


@pytest.mark.parametrize("read_only", [False, True])
def test_before_the_tree_is_loaded(read_only: bool) -> None:
    """Nothing can be served read-only before there is a tree; a ZooKeeper has its own on disk."""
    admin = free_port()
    ours = ZketcdServer(
        f"http://127.0.0.1:{free_port()}",
        admin_listen=f"127.0.0.1:{admin}",
        read_only_mode="on" if read_only else "off",
    )
    with ExitStack() as stack:
        stack.callback(ours.close)
        ours.launch()
        _wait_for(ours.port, "ruok", "imok")
        with _alone(read_only=False) as real:
            _check_alike(real, ours.port)
        _check_admin(admin)
        assert ours.stop() == 0
        assert "Traceback" not in ours.log_text()


def test_a_silent_etcd(own_etcd_server: EtcdServer, lost: Callable[[str], ZketcdServer]) -> None:
    ours = lost("off")
    with _alone(read_only=False) as real:
        _check_alike(real, ours.port)
    own_etcd_server.resume()
    # It may serve, then learn that its lease has run out, and serve again when it has registered once more.
    wait_until(lambda: "Mode: standalone" in _said(ours.port, "srvr"), "the proxy serves")
    wait_until(lambda: isinstance(_connected(ours.port, read_only=False), bytes), "it opens sessions")


def test_a_silent_etcd_and_clients_that_only_read(lost: Callable[[str], ZketcdServer]) -> None:
    ours = lost("on")
    with _alone(read_only=True) as real:
        for word in sorted(words.ZOOKEEPER.keys() - {"conf", "cons", "dump", "envi", "mntr"}):
            assert _masked(_said(ours.port, word)) == _masked(_said(real, word)), word
        for port in (real, ours.port):
            assert "\nMode: read-only\n" in _said(port, "srvr")
            assert "\nzk_server_state\tread-only\n" in _said(port, "mntr")
            assert isinstance(_connected(port, read_only=False), wire.Closed)
    assert not isinstance(_connected(ours.port, read_only=True), wire.Closed)


#: Each is sent by a read-only session of its own.
_REQUESTS: tuple[requests.Request, ...] = (
    requests.GetData("/"),
    requests.GetData("/none"),
    requests.GetData("/", watch=True),
    requests.Exists("/none", watch=True),
    requests.GetChildren("/"),
    requests.GetChildren("/", with_stat=True),
    requests.GetAcl("/"),
    requests.GetEphemerals("/"),
    requests.GetAllChildrenNumber("/"),
    requests.MultiRead((requests.GetData("/"), requests.GetChildren("/none"))),
    requests.WhoAmI(),
    requests.Ping(),
    requests.AddAuth("digest", b"a:b"),
    requests.SetWatches(0, data=("/",)),
    requests.SetWatches2(0, persistent=("/",)),
    requests.AddWatch("/"),
    requests.CheckWatches("/"),
    requests.RemoveWatches("/"),
    requests.Sync("/"),
    requests.Create("/a"),
    requests.Create("/a", with_stat=True),
    requests.Create("/a", flags=requests.EPHEMERAL),
    requests.Create("a"),
    requests.CreateContainer("/a"),
    requests.CreateTtl("/a"),
    requests.SetData("/none"),
    requests.SetAcl("/"),
    requests.Delete("/none"),
    requests.Multi((requests.Create("/a"), requests.Delete("/a"))),
    requests.Multi((requests.Check("/none"),)),
    requests.Multi(()),
    requests.Reconfig("server.9=127.0.0.1:1:2:participant;3"),
    requests.CloseSession(),
)


def _answer(port: int, request: requests.Request) -> tuple[int, int]:
    """The xid and the error of a reply."""
    connection = wire.Connection(port)
    try:
        connection.send(wire.frame(wire.pack_connect()[:-1] + b"\1"))
        granted = connection.receive_frame()
        assert isinstance(granted, bytes)
        assert granted[-1] == 1, "it is read-only"
        connection.send(wire.frame(requests.encode(request, 1)))
        found = connection.receive_frame()
        assert isinstance(found, bytes), request
        xid, _, error = wire.HEADER.unpack_from(found)
        return xid, error
    finally:
        connection.close()


def test_what_clients_that_only_read_may_ask(lost: Callable[[str], ZketcdServer]) -> None:
    ours = lost("on")
    with _alone(read_only=True) as real:
        for request in _REQUESTS:
            assert _answer(ours.port, request) == _answer(real, request), request


@pytest.fixture
def lost(own_etcd_server: EtcdServer) -> Iterator[Callable[[str], ZketcdServer]]:
    """Starts a proxy, then stops its etcd; returns when the proxy has noticed."""
    with ExitStack() as stack:

        def started(read_only_mode: str) -> ZketcdServer:
            server = stack.enter_context(
                ZketcdServer(own_etcd_server.endpoint, read_only_mode=read_only_mode)
            )
            own_etcd_server.pause()
            stack.callback(own_etcd_server.resume)
            _wait_for(server.port, "isro", "ro" if read_only_mode == "on" else "null")
            return server

        yield started
