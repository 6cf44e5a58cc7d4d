"""A tree is sealed while kazoo's clients write: nothing is lost, nothing is served behind the seal."""

import asyncio
import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from archive.files.moment import moment
from archive.files.store import store_of
from archive.past.state import state_at
from lab.servers import EtcdServer, StartFailed, ZketcdServer, free_port, wait_until
from proxy.etcd.client import EtcdClient
from proxy.log.load.start import load_as_of
from proxy.log.seal import seal
from proxy.state.machine import Machine
from schema.keys import Keyspace
from schema.record import Seal
from zketcd.__main__ import main

_UNKNOWN = (
    ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError, KazooTimeoutError
)  # fmt: skip
_TIMEOUT = 60.0  # seconds for a request


class _Writer:
    """Creates one node after another, at any of the proxies, and notes which it knows to be there."""

    def __init__(self, name: str, hosts: str) -> None:
        self.name = name
        self.acknowledged: list[str] = []
        self.is_over = False
        self._client = KazooClient(hosts=hosts, timeout=10.0)
        self._client.start(timeout=_TIMEOUT)
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self.is_over:
            number += 1
            path = f"/{self.name}-{number}"
            try:
                # No retry: it would wait for a server for as long as there is none.
                self._client.create_async(path, b"x").get(timeout=_TIMEOUT)
            except _UNKNOWN:
                continue
            self.acknowledged.append(path)

    @property
    def is_connected(self) -> bool:
        return bool(self._client.connected)

    def stop(self) -> None:
        self.is_over = True
        self._client.stop()
        self._client.close()
        self._thread.join(_TIMEOUT)


class _Reader(threading.Thread):
    """Reads a proxy's feed of changes to its end."""

    def __init__(self, admin: int) -> None:
        super().__init__()
        self._answer = urllib.request.urlopen(f"http://127.0.0.1:{admin}/changes", timeout=600)
        self._lines = [self._answer.readline()]
        self.start()

    def run(self) -> None:
        self._lines += self._answer

    def lines(self) -> list[dict[str, Any]]:
        self.join(_TIMEOUT)
        return [json.loads(line) for line in self._lines]


def _sealed(etcd: EtcdServer, prefix: str, where: Seal) -> int:
    async def run() -> int:
        client = EtcdClient((etcd.endpoint,))
        try:
            return await seal(client, Keyspace(prefix), where)
        finally:
            await client.close()

    return asyncio.run(run())


def _at_the_seal(etcd: EtcdServer, prefix: str) -> Machine:
    async def run() -> Machine:
        client = EtcdClient((etcd.endpoint,))
        try:
            return (await load_as_of(client, Keyspace(prefix), even_sealed=True)).machine
        finally:
            await client.close()

    return asyncio.run(run())


def test_every_acknowledged_write_lies_before_the_seal_and_no_proxy_serves_behind_it(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = tmp_path / "archive"
    where = Seal(etcd_server.endpoint, f"{etcd_prefix}-moved", 0, 1_763_898_000_000)
    place = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    admins = free_port(), free_port()
    servers = [
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, archive=url, admin_listen=f"127.0.0.1:{admin}")
        for admin in admins
    ]
    writers: list[_Writer] = []
    try:
        for server in servers:
            server.start()
        reader = _Reader(admins[0])
        hosts = ",".join(server.address for server in servers)
        writers = [_Writer(f"w{number}", hosts) for number in range(4)]
        wait_until(lambda: all(len(each.acknowledged) > 50 for each in writers), "all write", 120)
        # One proxy stands still, and sees the seal long after it.
        servers[1].pause()
        wait_until(lambda: len(writers[0].acknowledged) > 60 or not writers[0].is_connected, "time", 120)
        position = _sealed(etcd_server, etcd_prefix, where)
        servers[1].resume()
        for server in servers:
            assert server.wait(_TIMEOUT) == 1
            words = f"moved to the prefix {where.prefix} of the etcd at {etcd_server.endpoint}"
            assert server.log_text().count(words) == 1
            assert f"sealed here at position {position}" in server.log_text()
        wait_until(lambda: not any(each.is_connected for each in writers), "no client is served", 60)
    finally:
        for each in writers:
            each.stop()
        for server in servers:
            if server.alive:
                server.resume()
            server.close()
    machine = _at_the_seal(etcd_server, etcd_prefix)
    acknowledged = {path for each in writers for path in each.acknowledged}
    assert acknowledged <= machine.tree.nodes.keys()
    assert machine.sessions, "their ends are not logged"
    lines = reader.lines()
    assert f"moved to the prefix {where.prefix}" in lines[-1]["end"]
    last = int(lines[-1]["id"], 16)
    made = {path for path, node in machine.tree.nodes.items() if path.startswith("/w") and node.czxid <= last}
    assert {line["path"] for line in lines if "path" in line} == made

    with pytest.raises(StartFailed, match="was moved to the prefix"):
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix).start()
    assert _sealed(etcd_server, etcd_prefix, where) == position
    assert main(["proxies", *place]) == 0
    assert "was moved to the prefix" in capsys.readouterr().out
    assert main(["check", *place]) == 2
    assert "was moved to the prefix" in capsys.readouterr().out

    # The archive has everything up to the seal; if no proxy had time for it, the command takes the rest.
    assert main(["archive", str(url), *place]) == 0
    assert state_at(store_of(str(url)), moment("now", 1 << 50)).zxid == machine.zxid

    # Nothing is at the other place, so the move may be called off. Here that etcd has another cluster id.
    assert main(["unseal", *place]) == 1
    assert "its cluster id is" in capsys.readouterr().err
    assert main(["unseal", *place, "--force"]) == 0
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix) as server:
        client = KazooClient(hosts=server.address)
        client.start(timeout=_TIMEOUT)
        assert {f"/{name}" for name in client.get_children("/")} >= acknowledged
        client.create("/again")
        client.stop()
        client.close()
