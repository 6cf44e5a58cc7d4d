"""What a proxy registers about where it runs."""

import socket

import pytest

from proxy.config import parse
from proxy.home import home_of, numbers_of
from proxy.support.user import host_name
from tests.table import one_by_one

_NAME = socket.gethostname()


@one_by_one(
    ("arguments", "listen", "admin"),
    [
        ("--listen 0.0.0.0:1 --admin-listen 0.0.0.0:2", "0.0.0.0:1", f"http://{_NAME}:2"),
        ("--listen :1 --admin-listen *:2", "*:1", f"http://{_NAME}:2"),
        ("--listen [::1]:1 --admin-listen [::]:2", "[::1]:1", f"http://{_NAME}:2"),
        ("--listen 10.0.0.1:1 --admin-listen 127.0.0.1:2", "10.0.0.1:1", "http://127.0.0.1:2"),
        ("--listen db-1:1 --admin-listen none", "db-1:1", ""),
    ],
)
def test_addresses_are_those_that_others_can_use(arguments: str, listen: str, admin: str) -> None:
    home = home_of(parse(arguments.split()), {"main": 1, "admin": 2})
    assert (home.host, home.listen, home.admin) == (_NAME, listen, admin)
    assert home.started > 1_700_000_000_000


def test_a_host_name_of_any_bytes_is_told_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """/metrics, which has the names of all proxies, had none of them."""
    monkeypatch.setattr(socket, "gethostname", lambda: "h\udcff\x1b")
    assert host_name() == r"h\udcff\x1b"


def test_ports_are_those_that_are_held_and_a_port_that_is_not_is_not_named() -> None:
    config = parse(["--listen", "127.0.0.1:0"])
    with socket.create_server(("127.0.0.1", 0)) as main, socket.create_server(("127.0.0.1", 0)) as admin:
        home = home_of(config, numbers_of({"main": main, "admin": admin}))
        assert home.listen == f"127.0.0.1:{main.getsockname()[1]}"
        assert home.admin == f"http://127.0.0.1:{admin.getsockname()[1]}"
        assert home_of(config, numbers_of({"main": main})).admin == ""
