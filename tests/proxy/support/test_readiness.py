"""What is sent to systemd, and that nothing else happens without it."""

import socket
from pathlib import Path

import pytest

from proxy.support.readiness import READY, notify


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_is_one_datagram(tmp_path: Path, abstract: bool) -> None:
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}" if abstract else name)
        receiver.settimeout(60)
        assert notify(READY, {"NOTIFY_SOCKET": f"@{name}" if abstract else name})
        assert receiver.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "nonsense", "/no/such/socket"])
def test_where_nobody_listens_nothing_is_sent(address: str) -> None:
    assert not notify(READY, {"NOTIFY_SOCKET": address})


def test_without_the_variable_nothing_is_sent() -> None:
    assert not notify(READY, {})
