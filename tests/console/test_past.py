"""The console's look into the past: a proxy that archives, its child that reads the archive, and the page."""

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from codec.client import delete, set_acl
from codec.jute import Acl
from console.answers.past_worker import Answers
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.browser import browsing
from lab.servers.ports import free_port
from lab.servers.process import children_of, lives
from proxy.options.etcd import embedded_url
from proxy.state.auth.digest import digest_identity
from tests.archive.archives import until_archived
from tests.console.consoles import Operator, alone, text

pytestmark = pytest.mark.real

_AMY = digest_identity(b"amy:secret")
_HERS = [Acl(31, "digest", _AMY.id), Acl(16, "world", "anyone")]  # all may set the ACL, and not read


class World(NamedTuple):
    """A proxy whose archive has all that has happened."""

    proxy: ZketcdServer
    admin: int
    archive: Path
    zxids: dict[str, int]


@pytest.fixture
def world(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path) -> Iterator[World]:
    admin, url = free_port(), tmp_path / "archive"
    with (
        ZketcdServer(
            etcd_server.endpoint,
            prefix=etcd_prefix,
            archive=url,
            admin_listen=f"127.0.0.1:{admin}",
            proxy_lease=2,
            tick_time=500,
        ) as proxy,
        Client(proxy.port) as client,
    ):
        zxids = {}

        def note(name: str) -> None:
            zxids[name] = client.zxid

        client.create("/a", b'{"n": 12345678901234567890}\n')
        note("made")
        client.create("/a/b", b"")
        client.write("/a", b'{"n": 1.0}\n<img src=x onerror=alert(1)>')
        note("set")
        client.create("/secret", b"once")
        note("open")
        client.call(set_acl("/secret", _HERS))
        client.create("/gone", b"hidden")
        client.call(set_acl("/gone", _HERS))
        note("closed")
        client.call(delete("/gone"))
        client.call(set_acl("/secret", [Acl(31, "world", "anyone")]))
        client.call(delete("/a/b"))
        note("end")
        until_archived(url, zxids["end"])
        yield World(proxy, admin, url, zxids)


@asynccontextmanager
async def _asking(world: World) -> AsyncIterator[Operator]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        operator = Operator(session, world.admin)
        assert (await operator.got("session"))["archive"] is True
        yield operator


def _readers(world: World) -> list[int]:
    """The processes of the proxy that read the archive."""
    children = children_of(world.proxy.pid)
    return [each for each in children if b"past_worker" in Path(f"/proc/{each}/cmdline").read_bytes()]


async def test_what_was_and_who_may_see_it(world: World) -> None:
    zxids = {name: f"0x{zxid:x}" for name, zxid in world.zxids.items()}
    async with _asking(world) as operator:
        assert _readers(world) == []  # no user has asked

        async def at(path: str, name: str) -> Any:
            return await operator.got("past/node", path=path, at=zxids[name])

        made = await at("/a", "made")
        assert made["node"]["data"] == text('{"n": 12345678901234567890}\n')
        assert (made["zxid"], made["children"]) == (zxids["made"], [])
        then = await at("/a", "set")
        assert (then["node"]["stat"]["version"], then["children"]) == (1, ["b"])
        assert (await at("/gone", "made"))["node"] is None
        (reader,) = _readers(world)

        past = await operator.got("past/history", path="/a")
        assert [(event["change"], event["versions"]) for event in past["events"]] == [
            ("set", [0, 1]),
            ("created", [None, 0]),
        ]
        assert past["events"][0]["zxid"] == zxids["set"]
        assert past["events"][0]["users"] == ["ip:127.0.0.1"]
        assert "data" not in json.dumps(past)
        span = await operator.got("past/span")
        by_time = await operator.got("past/node", path="/a", at=past["events"][1]["timeMs"])
        assert by_time["node"]["stat"]["version"] in (0, 1)
        assert (span["fromMs"], span["gaps"]) == (None, 0)
        assert past["events"][0]["timeMs"] <= span["toMs"]

        # The ACL of each moment counts, not that of today.
        assert (await at("/secret", "open"))["node"]["data"] == text("once")
        await operator.refused(403, "had then", "past/node", path="/secret", at=zxids["closed"])
        await operator.refused(403, "does not let", "past/history", path="/gone")
        await operator.got("identities", {"credentials": "amy:secret"})
        assert (await at("/secret", "closed"))["node"]["acl"][0]["id"] == _AMY.id
        gone = await operator.got("past/history", path="/gone")
        assert [event["change"] for event in gone["events"]] == ["deleted", "setACL", "created"]

        command = (await operator.got("past/revert", path="/a", at=zxids["made"]))["command"]
        assert command.startswith(
            f"zketcd revert /a --to {zxids['made']} --archive {world.archive} --etcd http"
        )
        assert command.endswith(f"--server 127.0.0.1:{world.proxy.port}")
        quoted = await operator.got("past/revert", path="/a; rm -rf 'x'", at=0)
        assert """ '/a; rm -rf '"'"'x'"'"'' --to 1970-01-01T00:00:00.000Z """ in quoted["command"]

        for name, query in (
            ("past/node", {"path": "/a", "at": "now; x"}),
            ("past/node", {"path": "/a"}),
            ("past/node", {"path": "a", "at": "0x1"}),
            ("past/history", {"path": "/a", "days": "-1"}),
        ):
            await operator.refused(400, "", name, None, **query)
        await operator.refused(404, "not archived", "past/node", path="/a", at="0xfffffff")
        assert _readers(world) == [reader]

        # A child that dies costs one answer at most.
        os.kill(reader, signal.SIGKILL)
        status, body = await operator.ask("past/span")
        assert status == 200 or (status, "see the log" in body["error"]) == (503, True)
        await operator.got("past/span")
        (reader,) = _readers(world)
    world.proxy.stop()
    wait_until(lambda: not lives(reader), "the child ends with its proxy")


async def test_the_command_that_reverts_names_an_embedded_etcd(tmp_path: Path) -> None:
    admin = free_port()
    with ZketcdServer(None, archive=tmp_path / "archive", admin_listen=f"127.0.0.1:{admin}") as proxy:
        async with aiohttp.ClientSession() as session:
            command = (await Operator(session, admin).got("past/revert", path="/a", at=0))["command"]
        assert f" --etcd {embedded_url(proxy.data_dir)} --prefix " in command


async def test_the_page_shows_the_past(world: World) -> None:
    zxids = {name: f"0x{zxid:x}" for name, zxid in world.zxids.items()}
    async with browsing() as browser:
        page = await browser.page()
        await page.open(f"http://127.0.0.1:{world.admin}/console/#tree:%2Fa")
        await page.click("Look into the past")
        await page.text("2 changes.")
        await page.click(zxids["made"])
        await page.text(f"as of zxid {zxids['made']}, last zxid {zxids['made']}")
        data = "document.querySelector('.then pre.data').textContent"
        assert await page.run(data) == '{\n  "n": 12345678901234567890\n}'
        assert await page.run("document.querySelectorAll('.marks line').length") == 2
        await page.click("Later change")
        await page.text(f"as of zxid {zxids['set']}")
        await page.click("Difference")
        await page.until("document.querySelectorAll('dialog .added').length === 2")
        assert await page.run("document.querySelectorAll('dialog .removed').length") == 3
        assert await page.run("document.querySelectorAll('dialog img').length") == 0
        await page.click("Close", "dialog")
        await page.click("Revert to it…")
        await page.text(f"zketcd revert /a --to {zxids['set']} --archive")
        await page.click("Close", "dialog")
        # A znode that is gone has a past as well.
        await page.run("location.hash = '#tree:%2Fa%2Fb'")
        await page.text("there is no znode '/a/b'")
        await page.click("Look into the past")
        await page.text("deleted")
        assert [each for each in page.complaints if "404" not in each] == []


def test_an_archive_that_cannot_be_read_is_an_answer(tmp_path: Path) -> None:
    answers = Answers(str(tmp_path / "none"))
    assert answers.answer({"ask": "span"}) == {"status": 404, "error": "the archive is empty so far"}
    question = {"ask": "node", "path": "/a", "at": 1, "identities": []}
    assert answers.answer(question)["status"] == 404
    assert Answers(str(tmp_path / "none" / "deeper")).answer(question)["status"] == 503


async def test_without_an_archive_there_is_no_past() -> None:
    async with alone() as (_, operator):
        assert (await operator.got("session"))["archive"] is False
        assert (await operator.ask("past/span"))[0] == 404
