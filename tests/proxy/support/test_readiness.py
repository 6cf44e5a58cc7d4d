"""What is sent to systemd, and that nothing else happens without it."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.servers import EtcdServer, ZketcdServer
from proxy.support.readiness import READY, notify, watchdog_interval
from tests.table import one_by_one


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_is_one_datagram(tmp_path: Path, abstract: bool) -> None:
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}" if abstract else name)
        receiver.settimeout(60)
        assert notify(READY, {"NOTIFY_SOCKET": f"@{name}" if abstract else name})
        assert receiver.recv(100) == b"READY=1"


def test_a_state_waits_until_there_is_room_and_a_sign_of_life_does_not(tmp_path: Path) -> None:
    name = f"{tmp_path}/notify"
    variables = {"NOTIFY_SOCKET": name}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver, ThreadPoolExecutor() as pool:
        receiver.bind(name)
        receiver.settimeout(60)
        signs = 0
        while notify("WATCHDOG=1", variables):
            signs += 1
        sent = pool.submit(notify, "MAINPID=7", variables)
        assert [receiver.recv(100) for _ in range(signs + 1)] == [b"WATCHDOG=1"] * signs + [b"MAINPID=7"]
        assert sent.result()


@pytest.mark.parametrize("address", ["", "nonsense", "/no/such/socket", None])
def test_where_nobody_listens_nothing_is_sent(address: str | None) -> None:
    assert not notify(READY, {} if address is None else {"NOTIFY_SOCKET": address})


@one_by_one(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "9" * 400}, None),
        ({"WATCHDOG_USEC": "9" * 5000}, None),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "9" * 5000}, None),
    ],
)
def test_signs_of_life_are_sent_twice_as_often_as_wanted(
    variables: dict[str, str], seconds: float | None
) -> None:
    assert watchdog_interval(variables) == seconds


def test_a_server_shows_life_while_its_loop_turns(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name)
        receiver.settimeout(60)
        variables = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "100000"}
        with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, variables=variables) as server:
            said = list(iter(lambda: receiver.recv(100), b"READY=1"))
            said += [receiver.recv(100) for _ in range(3)]
            assert set(said) == {b"WATCHDOG=1"}  # also while the tree is loaded
            os.kill(server.pid, signal.SIGTERM)
            # Still while it drains.
            assert b"STOPPING=1" in iter(lambda: receiver.recv(100), b"")
