"""Clients that only read a tree while it follows another one: real etcds, zketcds and kazoo."""

import json
from contextlib import ExitStack, closing
from urllib.request import urlopen

import pytest
from kazoo.client import KazooClient, KazooState, KeeperState
from kazoo.exceptions import NotReadOnlyCallError

from lab.client.blocking import Client as Blocking
from lab.client.blocking import Disconnected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.four_letter import four_letter_word
from lab.servers.ports import free_port
from tests.kazoo import kazoo
from tests.pipeline.ensembles import zketcd
from tests.pipeline.follow.running import PipelineCommand
from tests.pipeline.follow.test_standby_processes import COPY, url_of
from zketcd.__main__ import main


class Watching:
    """A client's watches on a znode's data: the data that it read after each event."""

    def __init__(self, client: KazooClient, path: str) -> None:
        self.seen: list[bytes] = []
        client.DataWatch(path, self._changed)

    def _changed(self, data: bytes | None, _stat: object) -> None:
        self.seen.append(data or b"")

    def until(self, data: bytes) -> None:
        wait_until(lambda: self.seen and self.seen[-1] == data, f"the watch has shown {data!r}", 60)


def monitor(server: ZketcdServer) -> dict[str, str]:
    """The answer to `mntr`."""
    lines = four_letter_word(server.port, "mntr").splitlines()
    return dict(line.split("\t", 1) for line in lines if "\t" in line)


def is_word(server: ZketcdServer, word: str) -> bool:
    try:
        return four_letter_word(server.port, "isro") == word
    except OSError:
        return False


def test_readers_see_what_is_followed_and_write_after_the_cut_over(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    source = url_of(etcd_server, etcd_prefix)
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]
    admin = f"127.0.0.1:{free_port()}"
    reading = ZketcdServer(
        own_etcd_server.endpoint, prefix=COPY, read_only_mode="on", admin_listen=admin, tick_time=500
    )
    with (
        zketcd(etcd_server.endpoint, etcd_prefix) as old,
        kazoo(old) as writer,
        PipelineCommand("follow", source, *to) as following,
        closing(reading),
        ExitStack() as stack,
    ):
        writer.create("/a", b"1")
        begin = writer.last_zxid
        following.wait_until_level()
        reading.launch()
        wait_until(lambda: is_word(reading, "ro"), "the copy can be read", 60)
        reader = stack.enter_context(kazoo(reading, read_only=True, timeout=10))
        assert reader.client_state == KeeperState.CONNECTED_RO
        watching = Watching(reader, "/a")
        with pytest.raises(NotReadOnlyCallError):
            reader.set("/a", b"new")
        with pytest.raises(Disconnected):
            Blocking(reading.port)
        writer.set("/a", b"2")
        watching.until(b"2")
        for command in (("ls", "/"), ("sizes",), ("get", "/a")):
            assert main([*command, *to]) == 0
        said = monitor(reading)
        assert said["zk_server_state"] == "read-only"
        wait_until(lambda: "zk_copy_lag_ms" in monitor(reading), "the lag is known", 60)
        with urlopen(f"http://{admin}/ready", timeout=10) as ready:
            details = json.load(ready)["details"]
        assert (ready.status, details["role"]) == (200, "read-only")
        assert details["follows"]["copy_behind"] >= 0
        # What was before its feed began is read by another process.
        with urlopen(f"http://{admin}/changes?since={begin}&path=/a&data=yes", timeout=60) as lines:
            found = next(line for line in map(json.loads, lines) if "path" in line)
        assert (found["change"], found["data"]) == ("set", "2")
        with urlopen(f"http://{admin}/tree?path=/a&format=jsonl", timeout=60) as table:
            assert json.loads(table.readline())["data"] == "2"
        # Another follower takes over: the same client goes on.
        following.kill()
        writer.set("/a", b"3")
        following.start()
        watching.until(b"3")
        states: list[str] = []
        reader.add_listener(states.append)
        assert reader.client_state == KeeperState.CONNECTED_RO
        assert main(["follow", source, *to, "--finish"]) == 0
        wait_until(lambda: reader.client_state == KeeperState.CONNECTED, "the reader may write", 60)
        assert KazooState.LOST in states  # its read-only session was this server's own affair
        assert is_word(reading, "rw")
        assert reader.set("/a", b"4").version == 3
        watching.until(b"4")
        assert not any(name.startswith("zk_copy") for name in monitor(reading))
