"""The list passes on real ZooKeeper and on zketcd, and fails where a server or a store is wrong."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from codec.client import Request
from examples.offkv import __main__ as command
from examples.offkv import checking
from examples.offkv.checking import check_line
from examples.offkv.conformance import LINES, Line
from examples.offkv.store import Store
from lab.client.session import Address, Session, Watch
from lab.servers import ZketcdServer, ZooKeeperServer
from lab.servers.ports import free_port


def test_zookeeper_and_zketcd_pass_every_line(
    zookeeper_server: ZooKeeperServer, zketcd_server: ZketcdServer, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"zketcd={zketcd_server.address}", "--beside", f"zk={zookeeper_server.address}"]
    assert command.main([*arguments, "--below", "/offkv"]) == 0
    printed = capsys.readouterr()
    assert f"{2 * len(LINES)} of {2 * len(LINES)} lines pass" in printed.out
    assert printed.out.count("| passes | passes |") == len(LINES)
    assert "FAILED" not in printed.err


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


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"127.0.0.1:{free_port()}"]) == 2
    assert capsys.readouterr().err.startswith("offkv: no session at 127.0.0.1:")
