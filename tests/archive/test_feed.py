"""`GET /changes` of real proxies: older changes from the log and the archive, and readers that break off."""

import gc
import http.client
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from archive.past import feed
from codec.client import create as creation
from codec.client import delete, set_data
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.ports import free_port
from proxy.etcd.interface import Etcd
from proxy.state.feed import Id, id_of
from schema.entry import Kind, Request, encode_epoch
from tests.archive.archives import until_archived
from tests.kazoo import kazoo
from tests.mirror import Mirror
from tests.proxy.log.trees import Tree
from zketcd.__main__ import main

_SESSION_MS = 300_000


class World(NamedTuple):
    """Two proxies of one tree; the first one archives."""

    proxies: tuple[ZketcdServer, ZketcdServer]
    admins: tuple[int, int]
    etcd: tuple[str, ...]  # options of commands
    archive: Path

    def snapshots(self) -> None:
        """Two, after which the log holds only what is newer than the first one."""
        for _ in range(2):
            with Client(self.proxies[0].port, _SESSION_MS) as client:
                client.write("/app", b"before a snapshot")
            assert main(["snapshot", *self.etcd]) == 0

    def read(self, admin: int, query: str, mirror: Mirror, until: int, most: int = 1 << 60) -> int:
        """Read lines until the mirror has reached a zxid, or so many bytes; the status."""
        asked = f"http://127.0.0.1:{admin}/changes?{query}"
        asked += f"&since={mirror.id}" if mirror.id else ""
        try:
            with urllib.request.urlopen(asked, timeout=300) as answer:
                while not mirror.id or int(mirror.id.partition(".")[0], 16) < until or "." in mirror.id:
                    line = answer.readline()
                    most -= len(line)
                    if most < 0 or not line.endswith(b"\n"):
                        break  # not all of the line has arrived
                    mirror.take(line)
        except urllib.error.HTTPError as error:
            mirror.end = json.loads(error.read())["error"]
            return error.code
        return 200

    def read_up_to(self, mirror: Mirror, until: int) -> None:
        """Read all lines up to a zxid at the first proxy.

        The answer ends early while the archive is behind a log that was truncated: a reader asks again, from
        the last line that it has.
        """

        def is_read() -> bool:
            assert self.read(self.admins[0], "data=yes", mirror, until) == 200
            return id_of(mirror.id) >= Id(until)

        wait_until(is_read, "all changes are read")


@pytest.fixture
def world(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path) -> Iterator[World]:
    admins = free_port(), free_port()

    def proxy(admin: int, *arguments: str) -> ZketcdServer:
        return ZketcdServer(
            etcd_server.endpoint,
            prefix=etcd_prefix,
            admin_listen=f"127.0.0.1:{admin}",
            max_session_timeout=_SESSION_MS,
            arguments=arguments,
        )

    archive = tmp_path / "archive"
    etcd = ("--etcd", etcd_server.endpoint, "--prefix", etcd_prefix)
    with proxy(admins[0], "--archive", str(archive)) as first, proxy(admins[1]) as second:
        yield World((first, second), admins, etcd, archive)


def _write(proxy: ZketcdServer, seed: int) -> None:
    """Transactions, single requests and ephemerals of a kazoo client."""
    random = Random(seed)
    with kazoo(proxy) as zookeeper:
        for number in range(80):
            transaction = zookeeper.transaction()
            for part in range(random.choice((1, 1, 2, 7))):
                path = f"/app/w{seed}-{number}-{part}"
                transaction.create(path, random.randbytes(random.choice((0, 10, 2000))))
                transaction.set_data(path, b"text")
                if random.random() < 0.7:
                    transaction.delete(path)
            assert not any(isinstance(each, Exception) for each in transaction.commit())
            zookeeper.create(f"/app/e{seed}-", b"", ephemeral=True, sequence=True)
            zookeeper.set("/app", b"%d" % number)


def test_readers_that_break_off_have_each_change_once(world: World) -> None:
    with Client(world.proxies[0].port, _SESSION_MS) as client:
        client.create("/app")
        begin = client.zxid
    mirror, random = Mirror(), Random(7)
    assert world.read(world.admins[0], "data=yes&since=0", mirror, begin) == 200
    # While it is there, the changes are recent at the second proxy. At the first one a child reads the log.
    steady = http.client.HTTPConnection("127.0.0.1", world.admins[1], timeout=300)
    steady.request("GET", "/changes")
    assert steady.getresponse().readline().startswith(b'{"id":')
    with ThreadPoolExecutor() as pool, Client(world.proxies[1].port, _SESSION_MS) as client:
        writers = [pool.submit(_write, world.proxies[seed % 2], seed) for seed in range(3)]
        while not all(writer.done() for writer in writers):
            admin = random.choice((world.admins[0], *(world.admins[1],) * 5))
            assert world.read(admin, "data=yes", mirror, 1 << 62, random.randrange(20_000)) in (200, 409, 503)
        for writer in writers:
            writer.result()
        client.write("/app", b"end")
        last = client.zxid
        whole = Mirror()
        whole.id = "0"
        for each in (mirror, whole):
            # 503: children of readers that broke off are not noticed at once. 409: a proxy is behind.
            while (status := world.read(world.admins[0], "data=yes", each, last)) != 200:
                assert status in (409, 503), each.end
                time.sleep(0.2)
        assert mirror.ids == whole.ids
        assert mirror.nodes == whole.nodes
        below = {path: node for path, node in mirror.nodes.items() if path.startswith("/app/")}
        assert {path.removeprefix("/app/") for path in below} == client.children("/app")[0]
        for path, (version, data) in below.items():
            found = client.read(path)
            assert (found.stat.version, found.data) == (version, data)
    assert len(mirror.ids) > 1000
    steady.close()


def test_what_the_log_has_not_is_in_the_archive_or_gone(world: World) -> None:
    second = world.admins[1]
    with Client(world.proxies[1].port, _SESSION_MS) as client:
        client.create("/app", b"1")
        begin = client.zxid
        parts = [
            creation("/app/a", b"a"),
            set_data("/app/a", b"b"),
            delete("/app/a"),
            creation("/app/b", b""),
        ]
        client.transact(parts)
        until_archived(world.archive, begin + 1)
        world.snapshots()
        client.write("/app", b"end")
        last = client.zxid

        mirror = Mirror()
        mirror.id = "0"
        world.read_up_to(mirror, last)
        multi = f"0x{begin + 1:x}"
        assert mirror.ids[:5] == [f"0x{begin:x}", f"{multi}.1", f"{multi}.2", f"{multi}.3", multi]
        assert mirror.nodes["/app"] == (3, b"end")
        middle = Mirror()
        middle.id, middle.nodes["/app/a"] = mirror.ids[2], (1, b"b")
        middle.nodes["/app"] = (0, b"1")
        world.read_up_to(middle, last)
        assert (middle.ids, middle.nodes) == (mirror.ids[3:], mirror.nodes)

        gone = Mirror()
        gone.id = "0"
        assert world.read(second, "data=yes", gone, last) == 410
        oldest = gone.end.split()[5].rstrip(",")
        assert gone.end.startswith("the log reaches back to 0x")
        gone.id = oldest
        gone.nodes["/app"] = (1, b"before a snapshot")
        assert world.read(second, "path=/app&data=yes", gone, last) == 200
        assert gone.nodes["/app"] == mirror.nodes["/app"]
        assert gone.ids == mirror.ids[-len(gone.ids) :]


def test_a_reader_that_falls_behind_is_served_from_the_log(world: World) -> None:
    """More changes than are kept as recent ones, and than sockets take."""
    connection = http.client.HTTPConnection("127.0.0.1", world.admins[1], timeout=300)
    connection.request("GET", "/changes?path=/app&data=yes")
    answer = connection.getresponse()
    mirror = Mirror("/app")
    mirror.take(answer.readline())
    with Client(world.proxies[0].port, _SESSION_MS) as client:
        client.create("/app")
        for number in range(90):
            client.write("/app", b"%d" % number + b"x" * 400_000)
        last = client.zxid
        # Where this takes half a minute, the proxy has closed the connection, and the next one goes on.
        with suppress(OSError, http.client.HTTPException):
            while int(mirror.id, 16) < last and (line := answer.readline()).endswith(b"\n"):
                mirror.take(line)
        connection.close()
        while int(mirror.id, 16) < last:
            assert world.read(world.admins[1], "path=/app&data=yes", mirror, last) in (200, 409, 503)
        assert len(mirror.ids) == 91
        assert mirror.nodes == {"/app": (90, b"89" + b"x" * 400_000)}


class _Caught(Exception):
    """All that etcd has was read."""


class _Asked(threading.Semaphore):
    """The reader wants no more."""

    def acquire(self, *_: object) -> bool:
        raise _Caught


async def _read(tree: Tree, since: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], str]:
    """The ids of the lines that a child writes, and why there are no more. Raises Gone."""
    lines, end = await lines_of(tree, since, monkeypatch)
    return [line["id"] for line in lines], end


async def lines_of(
    tree: Tree, since: str, monkeypatch: pytest.MonkeyPatch, url: str = ""
) -> tuple[list[dict[str, Any]], str]:
    """As `_read`, the whole lines; what the log has not is in the archive at `url`."""
    return await lines_in(tree.etcd, "/t", since, monkeypatch, url)


async def lines_in(
    etcd: Etcd, prefix: str, since: str, monkeypatch: pytest.MonkeyPatch, url: str = ""
) -> tuple[list[dict[str, Any]], str]:
    """As `lines_of`, of the tree under a prefix."""
    lines: list[bytes] = []
    ends: list[str] = []

    def say(header: dict[str, Any], found: bytes = b"") -> None:
        lines.extend(found.splitlines())
        ends.append(header.get("end", ""))

    monkeypatch.setattr(feed, "say", say)
    given = {"prefix": prefix, "url": url, "since": since, "path": "/", "data": True, "events": False}
    with suppress(_Caught):
        await feed.Feed(etcd, {**given, "identities": []}, _Asked()).run()
    gc.unfreeze()
    return [json.loads(line) for line in lines], ends[-1]


async def test_a_reader_of_what_a_restore_has_undone_gets_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = await Tree().make("a")
    await tree.create("a", "/a", "/b")
    await tree.send("a", [Request(Kind.EPOCH, 0, 0, (), encode_epoch(tree.store.cluster_id, 50))])
    await tree.create("a", "/c")
    after = f"0x{(1 << 32) + 1:x}"
    assert await _read(tree, "0x1", monkeypatch) == (["0x2", "0x3", after], "")
    assert await _read(tree, "0x3", monkeypatch) == ([after], "")
    assert await _read(tree, f"0x{1 << 32:x}", monkeypatch) == ([after], "")
    why = "etcd was restored .*, or a move .*: what had changed behind 0x3 is undone, also 0x28"
    with pytest.raises(feed.Gone, match=why) as gone:
        await _read(tree, "0x28", monkeypatch)
    assert gone.value.oldest == 1 << 32


async def test_the_log_from_its_beginning_and_behind_each_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = await Tree().make("a")
    await tree.create("a", "/a", "/b")
    await tree.snapshot("a")
    await tree.create("a", "/c")
    assert await _read(tree, "0x0", monkeypatch) == (["0x2", "0x3", "0x4"], "")
    assert await _read(tree, "0x3", monkeypatch) == (["0x4"], "")
    await tree.snapshot("a")
    await tree.create("a", "/d")
    assert await _read(tree, "0x3", monkeypatch) == (["0x4", "0x5"], "")
    assert await _read(tree, "0x4", monkeypatch) == (["0x5"], "")
    with pytest.raises(feed.Gone, match="the log reaches back to 0x3, and not to 0x2") as gone:
        await _read(tree, "0x2", monkeypatch)
    assert gone.value.oldest == 3
    # Of the request before that, the rest is not there either.
    with pytest.raises(feed.Gone, match=r"not to 0x3\.1"):
        await _read(tree, "0x3.1", monkeypatch)


def test_a_proxy_that_drains_sends_its_readers_on(world: World) -> None:
    first, second = world.admins
    connection = http.client.HTTPConnection("127.0.0.1", first, timeout=300)
    connection.request("GET", "/changes?data=yes")
    answer = connection.getresponse()
    mirror = Mirror("/app")
    mirror.take(answer.readline())
    with Client(world.proxies[1].port, _SESSION_MS) as client:
        client.create("/app", b"1")
        while "/app" not in mirror.nodes:
            mirror.take(answer.readline())
        os.kill(world.proxies[0].pid, signal.SIGTERM)
        for line in answer:
            mirror.take(line)
        assert mirror.end.endswith("go on at another proxy")
        client.write("/app", b"2")
        assert world.read(second, "path=/app&data=yes", mirror, client.zxid) == 200
        assert mirror.nodes == {"/app": (1, b"2")}
    connection.close()
    wait_until(lambda: not world.proxies[0].alive, "the proxy ends", 60)
