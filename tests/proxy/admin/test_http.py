"""The admin HTTP server on a real socket, about a whole server on the fake etcd."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any
from unittest import mock

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from codec.client import create, get, packet
from lab.fakes.etcd import FakeEtcd
from proxy.admin.changes import Changes
from proxy.admin.commands import Commands, Response
from proxy.admin.facts import NOT_SERVING
from proxy.admin.http import AdminServer
from proxy.admin.prometheus import Exposition
from proxy.frontend.listener import bound_socket
from proxy.options import words
from proxy.server import Server
from tests.proxy.test_server import Client, serving


class Browser:
    """Asks one admin server."""

    def __init__(self, session: aiohttp.ClientSession, server: Server, admin: AdminServer, port: int) -> None:
        self._session = session
        self.admin = admin
        self.server = server
        self._port = port

    async def ask(self, path: str, method: str = "GET", **more: Any) -> tuple[int, str, str]:
        """(status, content type, body)."""
        url = f"http://127.0.0.1:{self._port}{path}"
        async with self._session.request(method, url, **more) as answer:
            return answer.status, answer.content_type, await answer.text()

    async def json(self, path: str, method: str = "GET", **more: Any) -> tuple[int, Any]:
        """(status, object)."""
        status, kind, text = await self.ask(path, method, **more)
        assert kind == "application/json"
        return status, json.loads(text)

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that has sent nothing."""
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def ask_rudely(self, words: bytes, *, ends: bool = True) -> bytes:
        """What comes after these bytes until the server closes; `ends`: nothing comes behind them."""
        reader, writer = await self.connected()
        writer.write(words)
        if ends:
            writer.write_eof()
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def answers(self, *requests: bytes) -> None:
        """A client is served these requests."""
        client = await Client.connected(self.server)
        client.send(*requests)
        for _ in requests:
            await client.reply()


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    listener = bound_socket("", 0)  # both families: IPv4 clients have mapped addresses there
    listener.listen()
    async with serving(FakeEtcd()) as server:
        commands = Commands(server.facts, server.auth)
        changes = Changes(server.facts.subject, commands.guard, server.kill)
        admin = AdminServer(server.facts, commands, changes, server.words)
        await admin.start(listener)
        try:
            async with aiohttp.ClientSession() as session:
                yield Browser(session, server, admin, listener.getsockname()[1])
        finally:
            await admin.stop()


async def test_a_compressed_request_is_not_unpacked(browser: Browser) -> None:
    """A thousand times as many bytes may be in it."""
    body = gzip.compress(bytes(4 << 20))
    headers = {"Content-Encoding": "gzip"}
    status, _ = await browser.json("/commands/snapshot", "POST", data=body, headers=headers)
    assert status == 401, "not 413: it would have more than a mebibyte"


async def test_a_body_is_received_as_it_is_read(browser: Browser) -> None:
    """A body of a byte in each chunk takes 50 times as much memory as it has bytes."""
    limits = []

    async def read(request: web.Request) -> bytes:
        limits.append(request.content.get_read_buffer_limits())
        return b""

    with mock.patch.object(web.Request, "read", read):
        await browser.json("/commands/snapshot", "POST", data=b"1")
    ((_, most),) = limits
    assert most <= 8 << 10


async def test_each_command_of_the_list_answers_json(browser: Browser) -> None:
    await browser.answers(packet(1, create("/e", mode=1)), packet(2, get("/e", watch=True)))
    status, _, text = await browser.ask("/commands")
    assert (status, text) == (200, (await browser.ask("/commands/"))[2])
    assert text.startswith('<a href="/commands/configuration">configuration</a>\n<br/>\n')
    errors = {}
    for line in text.splitlines()[::2]:
        _, address, _ = line.split('"')
        status, body = await browser.json(address)
        assert status in (200, 401)
        if body["error"]:
            errors[body["command"]] = status
    guarded = {"kill_session": 401, "shed_connections": 401, "restore": 401, "snapshot": 401}
    assert errors == {"leader": 200, "set_trace_mask": 200, **guarded}
    assert (await browser.json("/commands/stmk?traceMask=7&traceMask=8"))[1]["tracemask"] == 7
    assert (await browser.json("/commands/gtmk"))[1]["tracemask"] == 7


async def test_an_ipv4_client_at_a_port_for_both_families_has_its_ipv4_address(browser: Browser) -> None:
    with mock.patch.object(Commands, "run", return_value=Response(HTTPStatus.OK, {})) as run:
        await browser.json("/commands/ruok")
    assert "127.0.0.1" in run.call_args.args


async def test_scrapes_that_come_together_have_one_text(browser: Browser) -> None:
    with mock.patch.object(Exposition, "text", autospec=True, side_effect=Exposition.text) as text:
        for _ in range(2):
            answers = await asyncio.gather(*(browser.ask("/metrics") for _ in range(20)))
            assert all(status == 200 and "zketcd_ready" in body for status, _, body in answers)
    assert 2 <= text.call_count < 40


async def test_a_browser_may_go_while_a_long_answer_is_sent(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[int] = []

    write = web.StreamResponse.write

    async def write_to_nobody(response: web.StreamResponse, data: bytes) -> None:
        sent.append(len(data))
        assert response._req is not None
        assert response._req.transport is not None
        response._req.transport.abort()
        await write(response, data)

    monkeypatch.setattr("proxy.admin.json_text._TOGETHER", 1)
    status, kind, text = await browser.ask("/commands/stat")
    assert (status, kind, json.loads(text)["command"]) == (200, "application/json", "stats")
    assert (await browser.ask("/commands/stat", "HEAD"))[::2] == (200, "")
    monkeypatch.setattr(web.StreamResponse, "write", write_to_nobody)
    with pytest.raises(aiohttp.ClientError):
        await browser.ask("/commands/stat")
    monkeypatch.undo()
    assert len(sent) == 1
    assert (await browser.json("/live"))[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_process_that_is_about_to_end_is_not_alive(browser: Browser) -> None:
    assert await browser.json("/live") == (200, {"status": "ok"})
    browser.server.process.deaf = "requests wait"
    assert await browser.json("/live") == (503, {"status": "fail", "details": {"reason": "requests wait"}})


async def test_what_is_not_there_is_said_in_json(browser: Browser) -> None:
    unknown = {"command": "nothing", "error": "Unknown command: nothing"}
    assert await browser.json("/commands/nothing") == (200, unknown)
    assert (await browser.json("/nothing"))[0] == 404
    for path, method in (("/ready", "POST"), ("/commands/ruok", "POST"), ("/commands/ruok", "TRACE")):
        assert (await browser.json(path, method))[0] == 405


async def test_on_loopback_commands_are_answered_to_localhost_only(browser: Browser) -> None:
    """Else a page in a browser here could use a name of its own site that points to 127.0.0.1."""
    for path in ("/commands", "/commands/ruok"):
        for host in ("localhost", "127.0.0.1:8080", "[::1]:8080", "10.1.2.3", "this-host:80"):
            assert (await browser.ask(path, headers={"Host": host}))[0] == 200
        status, answer = await browser.json(path, headers={"Host": "rebound.example:8080"})
        why = "on this address commands are answered to localhost, not to 'rebound.example'"
        assert (status, answer["error"]) == (403, why)
    assert (await browser.ask("/metrics", headers={"Host": "rebound.example"}))[0] == 200


async def test_the_page_of_another_site_sends_no_commands(browser: Browser) -> None:
    for site in ("cross-site", "same-site"):
        status, answer = await browser.json("/commands/srst", headers={"Sec-Fetch-Site": site})
        assert (status, answer["error"]) == (403, "commands are not answered to a page of another site")
    for site in ("same-origin", "none"):
        assert (await browser.json("/commands/srst", headers={"Sec-Fetch-Site": site}))[0] == 200


@pytest.mark.long
async def test_bad_requests_harm_nobody(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    for rude in (b"\0\1\2\3" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 100_000, b"ruok"):
        answer = await browser.ask_rudely(rude)
        assert not answer or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400", b"HTTP/1.1 505"))
        assert not any(word in answer for word in (b"Traceback", b"aiohttp", b"Python"))
    no_text = b"Connection: close\r\nAuthorization: digest a:\xff\xfe\r\n\r\n"
    asked = b"GET /commands/snapshot HTTP/1.1\r\nHost: x\r\n" + no_text
    assert (await browser.ask_rudely(asked, ends=False)).startswith(b"HTTP/1.1 503")
    with mock.patch.object(browser.server.facts, "statistics", side_effect=ZeroDivisionError):
        answers = [await browser.json("/commands/srvr") for _ in range(3)]
    faults = [each for each in caplog.records if each.exc_info and each.levelname == "ERROR"]
    assert len(faults) == 1, "one of a kind in 30 s"
    assert [(status, body["error"]) for status, body in answers] == [(500, "an error of the server")] * 3
    assert (await browser.json("/commands/srvr"))[0] == 200


async def test_a_client_that_goes_within_its_request_is_no_fault_of_ours(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """The log had an error with a traceback for each."""
    head = b"POST /commands/log_level HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    assert await browser.ask_rudely(head) == b""
    assert (await browser.json("/commands/srvr"))[0] == 200
    assert "could not be answered" not in caplog.text


async def test_a_connection_that_is_here_when_the_server_stops_is_answered(browser: Browser) -> None:
    reader, writer = await browser.connected()
    await browser.ask("/live")  # so the connection before it is accepted
    stopped = asyncio.create_task(browser.admin.stop())
    await asyncio.sleep(0)
    writer.write(b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    await stopped


async def test_ready_only_while_clients_are_served(browser: Browser) -> None:
    details = {"role": "standalone", "hasLeader": True, "serving": True}
    assert await browser.json("/ready") == (200, {"status": "ok", "details": details})
    with mock.patch("proxy.log.status.OUTAGE", -1.0):
        status, body = await browser.json("/ready")
        assert (status, body["status"], body["details"]["hasLeader"]) == (503, "fail", False)
        assert body["details"]["reason"].startswith("etcd does not answer")
        assert (await browser.json("/live"))[0] == 200
        for name in ("ruok", "mntr"):
            answer = {"command": name, "error": NOT_SERVING}
            assert await browser.json(f"/commands/{name}") == (200, answer)
    await browser.server.stop()
    status, body = await browser.json("/ready")
    assert (status, body["details"]["serving"]) == (503, False)
    for command, error in (("conf", NOT_SERVING), ("environment", None)):
        assert (await browser.json(f"/commands/{command}"))[1]["error"] == error
    assert (await browser.ask("/metrics"))[0] == 200


async def test_metrics_can_be_parsed(browser: Browser) -> None:
    await browser.answers(packet(1, create("/a")), packet(2, get("/a")))
    status, kind, text = await browser.ask("/metrics")
    assert (status, kind) == (200, "text/plain")
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["znode_count",] == len(browser.server.machine.tree.nodes) + 1
    assert values["zketcd_request_seconds_count", ("operation", "get_data")] == 1
    assert values["zketcd_request_seconds_bucket", ("le", "+Inf"), ("operation", "get_data")] == 1
    assert values["zketcd_log_entries_appended_total",] >= 2
    assert values["updatelatency_count",] == 2


@pytest.mark.parametrize("form", ["/api/v1/commands/{}", "/api/v1/commands?command={}&cwd=/"])
async def test_words_by_the_addresses_of_keeper(
    browser: Browser, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser.server.words, "_allowed", words.parse(words.DEFAULT))
    assert await browser.ask(form.format("ruok")) == (200, "application/json", '{"result":"imok"}')
    assert await browser.json(form.format("isro"), "POST") == (200, {"result": "rw"})
    status, found = await browser.json(form.format("mntr"))
    assert (status, "zk_znode_count\t" in found["result"]) == (200, True)
    status, found = await browser.json(form.format("stat"))
    assert (status, "--four-letter-words" in found["message"]) == (403, True)
    assert (await browser.json(form.format("ruok"), headers={"Host": "evil.example"}))[0] == 403


async def test_a_long_word_by_the_addresses_of_keeper(browser: Browser) -> None:
    await browser.answers(packet(1, create("/e", mode=1)))
    status, found = await browser.json("/api/v1/commands/dump")
    assert status == 200
    assert "\t/e\n" in found["result"]


async def test_what_is_no_word_by_the_addresses_of_keeper(browser: Browser) -> None:
    for path in ("/nope", "", "/"):
        unknown = (400, {"message": "Invalid four letter command."})
        assert await browser.json(f"/api/v1/commands{path}") == unknown
    for path in ("?command=ls%20%27/%27&cwd=/", "/ls?command=ls%20%27/%27&cwd=/", "?command="):
        status, found = await browser.json(f"/api/v1/commands{path}")
        assert (status, "zketcd shell" in found["message"]) == (501, True)
