"""A whole server on the fake etcd with a console on a real socket, and the clients that ask it."""

import base64
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from codec import client as zk
from codec.client import packet
from console.assets import read_assets
from console.feeds import LIMITS, FeedLimits, Feeds
from console.http import Console, ConsoleSettings
from console.people.guard import HEADER
from console.people.passwords import Secret
from console.storage import Storage
from console.tables import Source
from lab.fakes.etcd import FakeEtcd
from proxy.admin.changes import Changes
from proxy.admin.commands import Commands
from proxy.admin.http import AdminServer
from proxy.frontend.listener import bound_socket
from proxy.server import Server
from proxy.state.node import Node
from serve.admin_port import console_of
from tests.proxy.test_server import Client, serving

ASSETS = read_assets()  # here, not in a test's loop, which reading would block
PASSWORD = "correct horse"
LONG_SESSION = 600_000  # ms: no client here sends pings


def _secret() -> Secret:
    """Of little cost, which a file could not have: what a real one costs, each login would."""
    salt = b"salt"
    return Secret(2, 8, 1, salt, hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2, r=8, p=1, dklen=32))


class Operator:
    """A browser's requests, with its cookies."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.url = f"http://127.0.0.1:{port}/console/"
        self.headers: dict[str, str] = {HEADER: "1"}

    async def ask(
        self, name: str, values: Mapping[str, Any] | None = None, **query: str | int
    ) -> tuple[int, dict[str, Any]]:
        """(status, JSON) of an address below api/v1/: a POST if there are values."""
        method = "GET" if values is None else "POST"
        url = f"{self.url}api/v1/{name}"
        async with self.session.request(
            method, url, params=query, json=values, headers=self.headers
        ) as answer:
            return answer.status, json.loads(await answer.text())

    async def got(self, name: str, values: Mapping[str, Any] | None = None, **query: str | int) -> Any:
        """The JSON of a request that has to succeed."""
        status, body = await self.ask(name, values, **query)
        assert status == 200, body
        return body

    async def refused(
        self, status: int, words: str, name: str, values: Mapping[str, Any] | None = None, **query: str | int
    ) -> None:
        """A request has to fail with this status and an error that has these words."""
        found, body = await self.ask(name, values, **query)
        assert (found, words in body["error"]) == (status, True), body

    async def log_in(self, user: str, password: str = PASSWORD) -> int:
        """The status of a login."""
        return (await self.ask("login", {"user": user, "password": password}))[0]


class Place:
    """A server and its console."""

    def __init__(self, server: Server, console: Console, port: int, feeds: Feeds) -> None:
        self.server = server
        self.console = console
        self.port = port
        self.feeds = feeds

    @property
    def nodes(self) -> dict[str, Node]:
        """The tree."""
        return self.server.machine.tree.nodes

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Operator]:
        """Another browser."""
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address, not of a name
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield Operator(session, self.port)

    async def client(self, *nodes: tuple[str, bytes], flags: int = 0) -> Client:
        """A client of the server that has created these nodes, and whose session lasts."""
        client = await Client.connected(self.server, timeout_ms=LONG_SESSION)
        await create(client, *nodes, flags=flags)
        return client


@asynccontextmanager
async def place(
    *users: str,
    write: bool = False,
    certificates: bool = False,
    tls: ssl.SSLContext | None = None,
    feed_limits: FeedLimits = LIMITS,
    **settings: Any,
) -> AsyncIterator[Place]:
    """A server and its console, for these users (none: without logins), and for those with certificates."""
    listener = bound_socket("", 0)  # both families: IPv4 clients have mapped addresses there
    listener.listen()
    port = listener.getsockname()[1]
    async with serving(FakeEtcd(), max_session_timeout=LONG_SESSION, **settings) as server:
        known = dict.fromkeys(users, _secret()) if users else {}
        console = console_of(server, ConsoleSettings(known, certificates, write, ASSETS, 2 << 20))
        commands = Commands(server.facts, server.auth)
        changes = Changes(server.facts.subject, commands.guard, server.kill)
        feeds = Feeds(console, Source({}, "", ""), feed_limits)
        routes = Storage(console).routes + feeds.routes
        admin = AdminServer(
            server.facts, commands, changes, server.words, console.application, storage=routes
        )
        await admin.start(listener, tls)
        try:
            yield Place(server, console, port, feeds)
        finally:
            await admin.stop()


@asynccontextmanager
async def alone(*, write: bool = False, **settings: Any) -> AsyncIterator[tuple[Place, Operator]]:
    """A console without logins, and a user that has opened its page."""
    async with place(write=write, **settings) as where, where.operator() as operator:
        await operator.got("session")
        yield where, operator


@asynccontextmanager
async def amy_and_ben(**settings: Any) -> AsyncIterator[tuple[Place, Operator, Operator]]:
    """A console with two users, who have logged in."""
    async with (
        place("amy", "ben", write=True, **settings) as where,
        where.operator() as amy,
        where.operator() as ben,
    ):
        assert [await amy.log_in("amy"), await ben.log_in("ben")] == [200, 200]
        yield where, amy, ben


def text(data: bytes | str) -> str:
    """Data as the console takes and gives them."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


async def answered(client: Client, *requests: bytes) -> None:
    """A client's requests, each of which succeeds."""
    client.send(*requests)
    for _ in requests:
        assert (await client.reply()).err == 0


async def create(client: Client, *nodes: tuple[str, bytes], flags: int = 0) -> None:
    """Create nodes one after another."""
    await answered(
        client, *(packet(xid, zk.create(path, data, flags)) for xid, (path, data) in enumerate(nodes, 1))
    )
