"""What the proxies' admin ports say of the sessions' clients."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from codec.longs import unsigned
from ctl.sessions import clients_of, show
from proxy.state.capture import new_machine
from proxy.state.sessions import Session
from schema.record import Home
from tests.ctl.ports import AdminPort, admin_port

_HERE = socket.gethostname()


class Admin(AdminPort):
    """An admin port with two clients."""

    body = (
        b'{"connections":[{"session_id":-1,"remote_socket_address":"10.0.0.9:5"},'
        b'{"session_id":7,"remote_socket_address":"10.0.0.10:4"}],"error":null}'
    )

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/commands/connections" else 404)
        self.end_headers()
        self.wfile.write(self.body)


@pytest.fixture
def admin() -> Iterator[str]:
    with admin_port(Admin) as address:
        yield address


def test_clients_are_asked_for_and_what_is_unknown_is_said(
    admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    homes = {
        "a": Home(_HERE, "", admin),
        "b": Home("elsewhere", "", admin),
        "c": Home(_HERE, "", f"http://127.0.0.1:{port}"),
        "d": Home(_HERE),
    }
    clients, unknown = clients_of(homes)
    assert clients == {(1 << 64) - 1: "10.0.0.9:5", 7: "10.0.0.10:4"}
    assert [line.partition(": ")[2].partition(" at ")[0][:16] for line in unknown] == [
        "run this command",
        "http://127.0.0.1"[:16],
        "it has no admin ",
    ]
    assert "proxy b on elsewhere" in unknown[0]


def test_an_answer_that_is_none_is_said(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"[]", b"{}", b'{"error":null,"connections":[{}]}', b"<html>"):
        monkeypatch.setattr(Admin, "body", body)
        assert "does not answer" in clients_of({"a": Home(_HERE, "", admin)})[1][0]
    monkeypatch.setattr(Admin, "body", b'{"error":"not serving"}')
    assert "not serving" in clients_of({"a": Home(_HERE, "", admin)})[1][0]


@pytest.mark.parametrize(
    ("sort", "order"),
    [("session", [7, 8, -1]), ("client", [-1, 7, 8]), ("timeout", [8, 7, -1]), ("proxy", [8, 7, -1])],
)
def test_the_orders(sort: str, order: list[int]) -> None:
    machine = new_machine(1)
    for session_id, timeout, proxy in ((7, 2000, "b"), (8, 1000, "a"), (-1, 3000, "b")):
        machine.sessions[session_id] = Session(session_id, timeout, b"", proxy)
    clients = {(1 << 64) - 1: "9.0.0.9:5", 7: "10.0.0.10:4"}
    given = SimpleNamespace(client=None, proxy=None, sort=sort)
    shown = show(machine, {"b": Home("host")}, clients, given)
    assert [int(row["session"], 16) for row in shown.data] == [unsigned(each) for each in order]
    given.client = "9.0.0.9"
    assert [row["client"] for row in show(machine, {}, clients, given).data] == ["9.0.0.9:5"]
