"""shed_connections, log_level and kill_session: who may, what they answer, what they do."""

import base64
import hashlib
import json
import logging
from typing import Any

import pytest

from codec.constants import ErrorCode
from codec.jute import Acl
from proxy.admin.changes import Changes
from proxy.admin.guard import Guard
from proxy.state.auth.scheme import Settings
from proxy.state.auth.schemes import AuthSchemes
from proxy.support.latency import ConnectionLatency, Latency
from schema.paths import ROOT
from tests.proxy.admin import subjects
from tests.table import one_by_one

_ANYBODY, _SUPER = "digest bob:secret", "digest super:secret"


def _digest(user: str) -> str:
    return f"{user}:{base64.b64encode(hashlib.sha1(f'{user}:secret'.encode()).digest()).decode()}"


class Operator:
    """Asks for commands of one server."""

    def __init__(self) -> None:
        self.subject = subjects.subject_of()
        self.killed: list[tuple[int, str]] = []
        self.error = 0
        auth = AuthSchemes(settings=Settings(_digest("super"), None))
        self.changes = Changes(self.subject, Guard(self.subject, auth), self._kill)

    async def _kill(self, session_id: int, who: str) -> int:
        self.killed.append((session_id, who))
        return self.error

    async def ask(
        self, name: str, body: object = b"", who: str | None = _SUPER, method: str = "POST"
    ) -> tuple[int, Any]:
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await self.changes.run(method, name, given, who, "10.0.0.1")
        assert response is not None
        assert response.body["command"]
        return response.status, response.body


async def test_other_commands_are_not_its() -> None:
    assert await Operator().changes.run("GET", "ruok", b"", None, "") is None


@pytest.mark.parametrize("name", ["shed_connections", "shed", "log_level", "kill_session"])
async def test_each_needs_a_name_and_post(name: str) -> None:
    operator = Operator()
    assert (await operator.ask(name, who=None))[0] == 401
    assert (await operator.ask(name, who="unknown bob:secret"))[0] == 401
    assert (await operator.ask(name, method="PUT"))[0] == 405
    assert (await operator.ask(name, {}))[0] == 400
    operator.subject.machine.tree.nodes[ROOT].acl = (Acl(1, "world", "anyone"),)
    assert (await operator.ask(name, who=_ANYBODY))[0] == 403


async def test_who_guesses_a_password_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    operator = Operator()
    await operator.ask("log_level", who=None)
    for _ in range(20):
        assert (await operator.ask("log_level", {"level": "INFO"}, "digest super:guess"))[0] == 403
    assert operator.subject.counters.auth_failed == 20
    assert [record.getMessage() for record in caplog.records] == [
        "the admin port refuses a command of 10.0.0.1: Not authorized: this needs the super user"
    ]


async def test_only_users_that_the_root_names_may_do_what_no_client_can() -> None:
    operator = Operator()
    session = {"session": "0x5"}
    assert (await operator.ask("shed", {"percentage": 0}, _ANYBODY))[0] == 200, (
        "as ZooKeeper: all may, by default"
    )
    assert (await operator.ask("kill_session", session, _ANYBODY))[0] == 403
    assert (await operator.ask("kill_session", session, "ip"))[0] in (401, 403)
    assert operator.killed == []
    operator.subject.machine.tree.nodes[ROOT].acl = (
        Acl(31, "world", "anyone"),
        Acl(31, "digest", _digest("bob")),
    )
    assert (await operator.ask("kill_session", session, _ANYBODY))[0] == 200
    assert (await operator.ask("kill_session", session, "digest eve:secret"))[0] == 403
    assert [killed for killed, _ in operator.killed] == [5]
    assert operator.killed[0][1].endswith(" from 10.0.0.1")
    assert "digest:bob" in operator.killed[0][1]
    assert "secret" not in operator.killed[0][1]


@one_by_one(
    ("body", "error"),
    [
        (b"", "Missing required field: percentage"),
        (b"5", "Missing required field: percentage"),
        (b"{", "Invalid JSON or failed to read request body: "),
        ({"percentage": 101}, "Percentage must be between 0 and 100"),
        ({"percentage": "-1"}, "Percentage must be between 0 and 100"),
    ],
)
async def test_a_bad_percentage_is_refused_as_by_zookeeper(body: object, error: str) -> None:
    status, answer = await Operator().ask("shed", body)
    assert (status, answer["command"]) == (400, "shed_connections")
    assert answer["error"].startswith(error)


async def test_about_the_share_is_shed() -> None:
    operator = Operator()
    connections = operator.subject.connections = subjects.connected(
        *(subjects.Connection(ConnectionLatency(Latency({}))) for _ in range(1000))
    )

    async def shed(percentage: object) -> int:
        status, answer = await operator.ask("shed_connections", {"percentage": percentage})
        assert status == 200
        return int(answer["connections_shed"])

    assert (await shed(0), await shed("none")) == (0, 0)
    assert 150 < await shed(25) < 350
    left = [each for each in connections if not each.order.is_closed]
    assert await shed("100") == len(left)
    assert all(each.order.is_closed for each in connections)


async def test_the_log_level_is_shown_and_changed(caplog: pytest.LogCaptureFixture) -> None:
    operator, root = Operator(), logging.getLogger()
    before = root.level
    try:
        root.setLevel("INFO")
        status, answer = await operator.ask("log_level", who=None, method="GET")
        assert (status, answer["level"]) == (200, "INFO")
        assert (await operator.ask("log_level", {"level": "debug"}))[0] == 400
        assert (await operator.ask("log_level", {"level": "ERROR"}))[0] == 200
        assert root.level == logging.ERROR
        assert "the log level is ERROR now, asked by " in caplog.text
    finally:
        root.setLevel(before)


async def test_sessions_are_killed_by_their_id() -> None:
    operator = Operator()
    assert (await operator.ask("kill_session", {"session": 5}))[0] == 400, "JSON's numbers lose digits"
    assert (await operator.ask("kill_session", {"session": "0x1" + "0" * 16}))[0] == 400
    status, answer = await operator.ask("kill_session", {"session": "0xff00000000000001"})
    assert (status, answer["session"]) == (200, "0xff00000000000001")
    assert operator.killed[0][0] == -0x00FFFFFFFFFFFFFF
    operator.error = ErrorCode.SESSION_EXPIRED
    assert (await operator.ask("kill_session", {"session": "0x1"}))[0] == 404
    operator.error = ErrorCode.CONNECTION_LOSS
    assert (await operator.ask("kill_session", {"session": "0x1"}))[0] == 503
