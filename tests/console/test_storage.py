"""`/api/v1/storage`: as clickhouse-keeper's dashboard and tools ask for it."""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from codec import client as zk
from codec.client import packet
from codec.jute import Acl
from tests.console.consoles import PASSWORD, Place, answered, place

_STAT = {"czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner"} | {
    "dataLength",
    "numChildren",
}


class Tool:
    """Something that speaks Keeper's HTTP API."""

    def __init__(self, session: aiohttp.ClientSession, where: Place) -> None:
        self._session = session
        self.where = where

    @property
    def url(self) -> str:
        """The API's."""
        return f"http://127.0.0.1:{self.where.port}/api/v1/storage"

    async def ask(self, path: str, method: str = "GET", **more: Any) -> tuple[int, bytes]:
        """(status, body)."""
        async with self.answer(path, method, **more) as answer:
            return answer.status, await answer.read()

    def answer(self, path: str, method: str = "GET", **more: Any) -> Any:
        return self._session.request(method, f"{self.url}{path}", **more)

    async def json(self, path: str) -> Any:
        """The JSON of a request that has to succeed."""
        async with self.answer(path) as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            return json.loads(await answer.text())


@pytest_asyncio.fixture
async def tool() -> AsyncIterator[Tool]:
    async with place(write=True) as where, aiohttp.ClientSession() as session:
        await where.client(("/app", b"\xff\x00"), ("/app/a b", b""), ("/app/é", b""), ("/secret", b"x"))
        client = await where.client()
        acl = [
            Acl(31, "digest", "amy:hash"),
            Acl(31, "ip", "127.0.0.1"),
        ]  # as in the console, ip does not count
        await answered(client, packet(9, zk.set_acl("/secret", acl)))
        yield Tool(session, where)


async def test_a_znode_is_read(tool: Tool) -> None:
    async with tool.answer("/app") as answer:
        assert (answer.status, answer.content_type) == (200, "application/octet-stream")
        assert await answer.read() == b"\xff\x00"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    found = await tool.json("/app?children=true")
    assert found["child_node_names"] == ["a b", "é"]
    assert found["stat"].keys() == _STAT
    assert (found["stat"]["numChildren"], found["stat"]["dataLength"]) == (2, 2)
    assert found["stat"]["czxid"] == tool.where.nodes["/app"].czxid
    assert await tool.ask("/app", "HEAD") == (200, b"")
    assert await tool.ask("/app/a%20b") == (200, b"")
    for root in ("", "/"):
        assert (await tool.json(f"{root}?children=true"))["child_node_names"] == [
            "app",
            "secret",
            "zookeeper",
        ]


@pytest.mark.parametrize("path", ["/none", "/none?children=true"])
async def test_what_is_not_there(tool: Tool, path: str) -> None:
    assert (await tool.ask(path))[0] == 404
    assert await tool.ask(path, "HEAD") == (404, b"")


async def test_an_acl_is_obeyed(tool: Tool) -> None:
    for path in ("/secret", "/secret?children=true"):
        status, body = await tool.ask(path)
        assert (status, b"the ACL of '/secret'" in body) == (403, True)
    assert (await tool.ask("/secret", "PUT", params={"version": -1}, data=b"y"))[0] == 403
    assert (await tool.ask("/secret/below", "POST", data=b"y"))[0] == 403
    assert tool.where.nodes["/secret"].data == b"x"


async def test_changes(tool: Tool) -> None:
    sessions = len(tool.where.server.machine.sessions)
    async with tool.answer("/app/new", "POST", data=b"\x00one") as answer:
        assert (answer.status, answer.headers["Location"]) == (201, "/app/new")
    assert (await tool.ask("/app/new", "POST"))[0] == 409
    assert (await tool.ask("/none/new", "POST"))[0] == 404
    assert (await tool.ask("/app/new", "PUT", params={"version": 5}, data=b"two"))[0] == 409
    assert await tool.ask("/app/new", "PUT", params={"version": 0}, data=b"two") == (200, b"OK\n")
    assert tool.where.nodes["/app/new"].data == b"two"
    assert (await tool.ask("/app", "DELETE", params={"version": -1}))[0] == 409  # it has children
    assert len(tool.where.server.machine.sessions) == sessions  # what is refused leaves none behind
    for version in ("?version=", "?version=x", "", f"?version={1 << 40}"):
        assert (await tool.ask(f"/app/new{version}", "DELETE"))[0] == 400
        assert (await tool.ask(f"/app/new{version}", "PUT"))[0] == 400
    assert await tool.ask("/app/new", "DELETE", params={"version": 1}) == (204, b"")
    assert "/app/new" not in tool.where.nodes


async def test_what_is_not_supported_says_so(tool: Tool) -> None:
    assert (await tool.ask("/app", "PATCH"))[0] == 405
    assert (await tool.ask("/app/..%2Fx"))[0] == 400
    assert (await tool.ask("/app/%00"))[0] == 400
    assert (await tool.ask("/app/%ff"))[0] == 400


async def test_what_is_too_large_is_refused_and_leaves_no_session(tool: Tool) -> None:
    sessions = len(tool.where.server.machine.sessions)
    limit = 1 << 20
    for size in (limit - 10, limit + 1):
        status, body = await tool.ask("/app/large", "POST", data=io.BytesIO(bytes(size)))
        assert (status, b"--max-frame" in body) == (413, True)
    assert len(tool.where.server.machine.sessions) == sessions


async def test_a_page_of_another_site_changes_and_reads_nothing(tool: Tool) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        assert (await tool.ask("/app", headers=headers))[0] == 403
        assert (await tool.ask("/evil", "POST", headers=headers))[0] == 403
    assert (await tool.ask("/app", headers={"Host": "evil.example"}))[0] == 403
    assert "/evil" not in tool.where.nodes


async def test_users_log_in_and_without_console_write_nothing_is_changed() -> None:
    right = {"Authorization": "Basic " + base64.b64encode(f"amy:{PASSWORD}".encode()).decode()}
    wrong = {"Authorization": "Basic " + base64.b64encode(b"amy:wrong").decode()}
    async with place("amy") as where, aiohttp.ClientSession() as session:
        tool = Tool(session, where)
        async with tool.answer("/zookeeper") as answer:
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="zketcd"')
        assert (await tool.ask("/zookeeper", headers=wrong))[0] == 401
        assert (await tool.ask("/zookeeper", headers=right))[0] == 200
        status, body = await tool.ask("/new", "POST", headers=right)
        assert (status, b"--console-write" in body) == (403, True)


async def test_many_requests_at_once_are_no_guesses() -> None:
    """Passwords that were just being checked counted as wrong: of eight requests three were refused."""
    right = {"Authorization": "Basic " + base64.b64encode(f"amy:{PASSWORD}".encode()).decode()}
    async with place("amy") as where, aiohttp.ClientSession() as session:
        tool = Tool(session, where)
        answers = await asyncio.gather(*[tool.ask("/zookeeper", headers=right) for _ in range(12)])
    assert {status for status, _ in answers} == {200}


async def test_a_change_names_its_user(caplog: pytest.LogCaptureFixture) -> None:
    right = {"Authorization": "Basic " + base64.b64encode(f"amy:{PASSWORD}".encode()).decode()}
    caplog.set_level("INFO")
    async with place("amy", write=True) as where, aiohttp.ClientSession() as session:
        assert (await Tool(session, where).ask("/new", "POST", headers=right))[0] == 201
    assert "console: 'amy' from 127.0.0.1: create '/new': done" in caplog.text
