"""The list passes on ZooKeeper, zketcd and etcd itself, and fails where a server or a store is wrong."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codec.client import Request
from examples.offkv import __main__ as command
from examples.offkv import checking, etcd_store
from examples.offkv.checking import check_line
from examples.offkv.conformance import LINES, Line
from examples.offkv.store import Store
from lab.client.session import Address, Session, Watch
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer


def test_the_three_systems_side_by_side(
    zookeeper_server: ZooKeeperServer,
    zketcd_server: ZketcdServer,
    etcd_server: EtcdServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """zketcd and ZooKeeper pass all lines; directly on etcd it is as the page says, in other requests."""
    arguments = [f"zketcd={zketcd_server.address}", f"zk={zookeeper_server.address}"]
    document = tmp_path / "offkv.json"
    etcd = ["--etcd", etcd_server.endpoint, "--json", str(document)]
    assert command.main([*arguments, *etcd]) == 0
    printed = capsys.readouterr()
    known = len([line for line in LINES if line.on_etcd is not None])
    assert f"{3 * len(LINES) - known} of {3 * len(LINES)} lines pass; {known} are known to" in printed.out
    assert printed.out.count("| passes | passes |") == len(LINES)
    assert "FAILED" not in printed.err
    page = (Path(__file__).resolve().parents[3] / "examples" / "README.md").read_text()
    for line in LINES:
        if line.on_etcd is not None:
            assert f"| {line.operation} | {line.promise} | gives {line.on_etcd!r} |" in page
            assert f"| passes | passes | gives {line.on_etcd!r} |" in printed.out
    found = json.loads(document.read_text())["servers"]
    assert set(found["zketcd"]["lines"].values()) == set(found["zk"]["lines"].values()) == {"passes"}
    assert len(found["etcd"]["lines"]) == len(LINES)


def test_a_wrong_answer_of_etcd_fails(etcd_server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_store, "_delete", lambda key, _end=b"": etcd_store._read(key))
    line = _line("erase", "takes a key with all below it")
    verdict = asyncio.run(check_line(etcd_server.endpoint, "/wrong-etcd", line))
    assert verdict.wrong == "gives [1, 1, 1], must give [0, 0, 1]"


class _ForgetsVersions(Session):
    """setData without its version."""

    def send(self, request: Request[Any], watch: Watch | None = None) -> asyncio.Future[Any]:
        if request.opcode.name == "SET_DATA":
            request = request._replace(body=request.body[:-4] + b"\xff\xff\xff\xff")
        return super().send(request, watch)


class _ErasesKeyByKey(Store):
    async def erase(self, key: str, version: int = 0) -> None:
        for request in await self._erasure(self._path(key)):
            await self.session.call(request)


def _line(operation: str, begins: str) -> Line:
    (found,) = (line for line in LINES if line.operation == operation and line.promise.startswith(begins))
    return found


async def test_a_wrong_server_fails(
    zookeeper_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(addresses: Sequence[Address], **options: Any) -> Session:
        return await _ForgetsVersions.open(addresses[0], **options)

    monkeypatch.setattr(checking, "connect", connect)
    address = Address("127.0.0.1", zookeeper_server.port)
    verdict = await check_line(address, "/wrong", _line("cas", "leaves a key of another version"))
    assert "must give (0, (1, b'value'))" in verdict.wrong


async def test_a_wrong_store_fails(
    zookeeper_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "Store", _ErasesKeyByKey)
    address = Address("127.0.0.1", zookeeper_server.port)
    verdict = await check_line(address, "/wrong-store", _line("erase", "refuses a key that is not there"))
    assert "gives 'no error', must give 'NoEntry'" in verdict.wrong
    verdict = await check_line(address, "/wrong-store", _line("erase", "takes a key with all below it"))
    assert "asks [" in verdict.wrong
    assert "must ask [" in verdict.wrong
