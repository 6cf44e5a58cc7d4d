"""`GET /changes` while the changes are recent; those before are in tests/archive/test_feed.py."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from codec import client as zk
from codec.client import packet
from codec.jute import Acl
from console import feeds
from console.feeds import FeedLimits
from console.walks.pacing import Pace
from proxy.admin import connections
from proxy.log.recent import Recent
from proxy.log.seal import seal
from schema.record import Seal
from tests.console.consoles import PASSWORD, Place, answered, place
from tests.mirror import Mirror
from tests.proxy.log.proxies import until

_ANN = {"Authorization": "Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode()}


@asynccontextmanager
async def _asked(where: Place, query: str = "", **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    url = f"http://127.0.0.1:{where.port}/changes{query}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        yield answer


async def _line(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    async with asyncio.timeout(60):
        found: dict[str, Any] = json.loads(await answer.content.readline())
    return found


async def _change(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """The next line of a change, or the last line."""
    while not {"path", "end"} & (line := await _line(answer)).keys():
        pass
    return line


def _recent(where: Place) -> Recent:
    return where.server.log.recent


async def test_changes_as_they_are_made() -> None:
    async with place() as where:
        client = await where.client(("/app", b"old"))
        async with _asked(where, "?path=/app&data=yes") as answer:
            assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            begin = await _line(answer)
            assert begin == {"id": f"0x{where.server.machine.zxid:x}"}
            parts = [zk.create("/app/a", b"\xff"), zk.create("/apples", b""), zk.set_data("/app", b"new")]
            await answered(client, packet(5, zk.create("/other", b"")), packet(6, zk.multi(parts)))
            created, changed = await _change(answer), await _change(answer)
        assert (created["path"], created["change"], created["data_base64"]) == ("/app/a", "created", "/w==")
        assert (created["operation"], created["version_before"]) == ("MULTI", None)
        assert (changed["path"], changed["data"], changed["version_after"]) == ("/app", "new", 1)
        assert changed["time"] == where.nodes["/app"].mtime
        assert changed["zxid"] == created["zxid"] == where.nodes["/app"].mzxid
        assert (created["id"], changed["id"]) == (f"0x{created['zxid']:x}.1", f"0x{created['zxid']:x}")
        await until(lambda: _recent(where).readers == 0)
        assert where.server.log.applier.recorder is None
        stats = where.server.facts.subject.feeds
        assert (stats.open, stats.sent, stats.behind) == ([], 2, 0)


async def test_changes_that_are_not_wanted_are_passed_over_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests = 0
    rest = Pace.rest

    async def counted(self: Pace) -> None:
        nonlocal rests
        rests += 1
        await rest(self)

    monkeypatch.setattr(feeds, "_LOOKED_AT", 2)
    monkeypatch.setattr(Pace, "rest", counted)
    async with place() as where:
        client = await where.client()
        async with _asked(where, "?path=/wanted") as answer:
            await _line(answer)
            before = rests
            parts = [zk.create(f"/n{number}", b"") for number in range(100)]
            await answered(client, packet(5, zk.multi([*parts, zk.create("/wanted", b"")])))
            assert (await _change(answer))["path"] == "/wanted"
            assert rests - before >= 50


async def test_server_sent_events_go_on_behind_the_last_one() -> None:
    async with place() as where, _asked(where) as other:
        await _line(other)  # what follows is recent as long as this one reads
        client = await where.client()
        parts = [zk.create(f"/{name}", b"") for name in "abc"]
        await answered(client, packet(5, zk.multi(parts)))
        found = [(await _change(other))["id"] for _ in parts]
        headers = {"Accept": "text/event-stream", "Last-Event-ID": found[0]}
        async with _asked(where, "?since=0x0", **headers) as answer:
            assert answer.content_type == "text/event-stream"
            lines = [(await answer.content.readline()).decode() for _ in range(8)]
        assert [line for line in lines if line.startswith("id")] == [f"id: {each}\n" for each in found]
        assert [lines[1], lines[4], lines[7]] == ["\n"] * 3
        assert json.loads(lines[3].removeprefix("data: "))["path"] == "/b"


async def test_a_line_has_to_be_readable_by_the_acl_of_that_moment() -> None:
    closed, opened = [Acl(30, "world", "anyone")], [Acl(31, "world", "anyone")]
    async with place() as where, _asked(where) as answer:
        await _line(answer)
        client = await where.client()
        requests = [
            zk.create("/a", b"", acl=closed),
            zk.set_data("/a", b"unseen"),
            zk.set_acl("/a", opened),
            zk.set_data("/a", b"seen"),
            zk.set_acl("/a", closed),
            zk.delete("/a"),
            zk.create("/end", b""),
        ]
        await answered(client, *(packet(number, each) for number, each in enumerate(requests, 5)))
        found = [await _change(answer) for _ in range(3)]
        assert [(each["path"], each["change"], each["version_after"]) for each in found] == [
            ("/a", "setACL", 1),
            ("/a", "set", 2),
            ("/end", "created", 0),
        ]


_WRONG = [
    ("?path=app", "'app' is no path of a node"),
    ("?path=", "is no path of a node"),
    ("?path=/%00", "is no path of a node"),
    ("?path=/a/", "is no path of a node"),
    ("?path=/../a", "is no path of a node"),
    ("?path=/%ff%fe%ed%a0%80", "is no path of a node"),
    ("?path=/a&path=/b", "path is given more than once"),
    ("?data=1", "data='1' is neither yes nor no"),
    ("?since=", "since: '' is neither a zxid"),
    ("?since=soon", "since: 'soon' is neither a zxid"),
    ("?since=-1", "is neither a zxid"),
    ("?since=0x1.0", "is neither a zxid"),
    ("?since=99999999999999999999999", "is neither a zxid"),
    ("?since=%0d%0aid:1", "is neither a zxid"),
    ("?since=" + "9" * 5000, "is neither a zxid"),
    ("?from=0x1", "unknown parameter 'from': /changes has data, path, since"),
    ("?%ff=%00", "unknown parameter"),
    ("?&&==&;", "unknown parameter"),
]


async def test_wrong_questions(caplog: pytest.LogCaptureFixture) -> None:
    async with place() as where:
        for query, error in _WRONG:
            async with _asked(where, query) as answer:
                text = await answer.text()
                assert (answer.status, error in json.loads(text)["error"]) == (400, True), (query, text)
        async with _asked(where, **{"Last-Event-ID": "0x1\xff"}) as other:
            assert other.status == 400
        assert _recent(where).readers == 0
    assert "Traceback" not in caplog.text


async def test_the_future_is_an_error_unless_it_comes_at_once() -> None:
    async with place() as where:
        client = await where.client()
        zxid = where.server.machine.zxid + 1
        asking = asyncio.ensure_future(_first(where, f"?since={zxid}"))
        await until(lambda: _recent(where).readers == 1)
        await answered(client, packet(5, zk.create("/a", b"")))
        assert await asking == (200, {"id": f"0x{zxid:x}"})
        where.feeds.limits = FeedLimits(ahead=0.0)
        status, body = await _first(where, "?since=0xffffffff")
        assert (status, body["error"]) == (
            409,
            f"since=0xffffffff is in the future: this proxy has applied 0x{zxid:x}",
        )


async def _first(where: Place, query: str = "", **headers: str) -> tuple[int, dict[str, Any]]:
    async with _asked(where, query, **headers) as answer:
        return answer.status, await _line(answer)


async def test_who_may_ask() -> None:
    async with place("ann") as where:
        async with _asked(where) as answer:
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="zketcd"')
        assert (await _first(where, **_ANN))[0] == 200
        wrong = {"Authorization": "Basic " + base64.b64encode(b"ann:wrong").decode()}
        assert (await _first(where, **wrong))[0] == 401
    async with place() as where:
        assert (await _first(where, **{"Sec-Fetch-Site": "cross-site"}))[0] == 403
        assert (await _first(where, Host="evil.example"))[0] == 403


async def test_there_is_a_bound_of_feeds() -> None:
    async with place(feed_limits=FeedLimits(most=1, look=0.01)) as where:
        stats = where.server.facts.subject.feeds
        async with _asked(where) as answer:
            await _line(answer)
            status, body = await _first(where)
            assert (len(stats.open), stats.refused) == (1, 1)
            assert (status, body["error"]) == (
                503,
                "this proxy has 1 feeds, which is the most: use another one",
            )
        await until(lambda: _recent(where).readers == 0)  # the reader is gone, which is noticed
        assert (await _first(where))[0] == 200
        assert stats.sent == 0


async def test_an_idle_feed_says_up_to_where_there_was_nothing() -> None:
    often = FeedLimits(mark=0.01, look=0.01)
    async with place(feed_limits=often) as where, _asked(where, "?path=/app") as answer:
        await _line(answer)
        await where.client(("/other", b""))
        wanted = {"id": f"0x{where.server.machine.zxid:x}"}
        async with asyncio.timeout(60):
            while (line := await _line(answer)) != wanted:
                assert line.keys() == {"id"}


async def test_a_proxy_that_stops_says_so_and_where_to_go_on() -> None:
    async with place() as where, _asked(where) as answer:
        await _line(answer)
        await where.client(("/a", b""))
        last = await _change(answer)
        where.server._handshake.is_open = False
        _recent(where).wake()
        end = await _change(answer)
        assert (end["id"], end["end"]) == (
            last["id"],
            "this proxy is loading the tree, or stopping: go on at another proxy",
        )
        assert await answer.content.read() == b""
        assert (await _first(where))[0] == 503


async def test_a_tree_that_moves_sends_its_readers_there() -> None:
    """They get all that lies before the seal."""
    async with place() as where, _asked(where) as answer, _asked(where) as other:
        await _line(answer)
        client = await where.client()
        context = where.server.log.context
        client.send(*(packet(number, zk.create(f"/n{number}", b"")) for number in range(5, 55)))
        await until(lambda: "/n5" in where.nodes)
        await seal(context.etcd, context.keys, Seal("http://two", "/there", 2, 0))
        paths = []
        while "end" not in (line := await _change(answer)):
            paths.append(line["path"])
        assert line["id"] == f"0x{where.server.machine.zxid:x}"
        assert sorted(paths) == sorted(each for each in where.nodes if each.startswith("/n"))
        words = "was moved to the prefix /there of the etcd at http://two"
        assert words in line["end"]
        await _line(other)
        assert await answer.content.read() == b""
        status, body = await _first(where)
        assert (status, words in body["error"]) == (503, True)


async def test_an_admin_port_that_closes_ends_its_feeds() -> None:
    async with place() as where, _asked(where) as answer:
        await _line(answer)
        where.feeds.stop()
        assert (await _change(answer))["end"] == "this proxy stops: go on at another proxy"


async def test_a_state_that_is_loaded_anew_ends_the_feed() -> None:
    async with place() as where, _asked(where) as answer:
        await _line(answer)
        _recent(where).replaced()
        assert (await _change(answer))["end"] == "this proxy has loaded its state anew: go on"


async def test_a_login_that_is_over_ends_its_feed() -> None:
    async with place("ann", feed_limits=FeedLimits(look=0.01)) as where, where.operator() as ann:
        assert await ann.log_in("ann") == 200
        cookies = {each.key: each.value for each in ann.session.cookie_jar}
        session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        header = "; ".join(f"{name}={value}" for name, value in cookies.items())
        url = f"http://127.0.0.1:{where.port}/changes"
        async with session, session.get(url, headers={"Cookie": header}) as answer:
            assert answer.status == 200
            await _line(answer)
            await ann.got("logout", {})
            assert (await _change(answer))["end"] == "the login is over: log in again, and go on"


def _of_chunks(answer: bytes) -> bytes:
    """The body of an answer in chunks."""
    body, rest = b"", answer.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body


@pytest.mark.long
async def test_a_slow_reader_costs_bounded_memory_and_hears_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On this etcd no child process can read the log: so it is closed where it has fallen behind."""
    monkeypatch.setattr(connections, "IDLE_TIMEOUT", 600.0)  # this machine may be slow
    most = 1 << 20
    async with place() as where, _asked(where, "?data=yes") as fast:
        recent = _recent(where)
        monkeypatch.setattr(recent, "_most", most)
        mirror = Mirror()
        reader, writer = await asyncio.open_connection("127.0.0.1", where.port, limit=1 << 12)
        writer.write(b"GET /changes?data=yes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await until(lambda: recent.readers == 2)
        await _line(fast)
        client = await where.client(("/a", b""))
        for number in range(200):
            await answered(client, packet(number + 5, zk.set_data("/a", b"x" * 100_000)))
            assert recent._bytes <= most
            changed = await _change(fast)
            while changed["change"] != "set":
                changed = await _change(fast)
            assert changed["version_after"] == number + 1  # the fast one is not slowed
        text = await asyncio.wait_for(reader.read(-1), 60)
        for line in _of_chunks(text).splitlines():
            mirror.take(line)
        assert 0 < len(mirror.ids) < 200
        assert mirror.end.startswith("the process that reads older changes has ended")
        assert mirror.end.endswith(f"go on behind {mirror.id}")
        assert mirror.id == mirror.ids[-1]
        writer.close()
