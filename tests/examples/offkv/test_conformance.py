"""The list passes on real ZooKeeper and on zketcd, and fails where a server or a store is wrong."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from examples.offkv import __main__ as command
from examples.offkv import checking
from examples.offkv.checking import check_all, check_line
from examples.offkv.conformance import LINES, Line
from examples.offkv.store import Store
from lab.client.requests import Request
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


async def test_the_lines_take_turns_at_several_servers(
    zketcd_pair: tuple[ZketcdServer, ZketcdServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "LINES", LINES[:4])
    addresses = [Address("127.0.0.1", server.port) for server in zketcd_pair]
    assert [verdict.wrong for verdict in await check_all(addresses, "/turns")] == [""] * 4


class _ForgetsVersions(Session):
    """setData without its version."""

    def send(self, request: Request[Any], watch: Watch | None = None) -> asyncio.Future[Any]:
        if request.opcode.name == "SET_DATA":
            request = request._replace(body=request.body[:-4] + b"\xff\xff\xff\xff")
        return super().send(request, watch)


class _FiresForEverything(Session):
    """Watches fire as soon as they are set."""

    def send(self, request: Request[Any], watch: Watch | None = None) -> asyncio.Future[Any]:
        future = super().send(request, watch)
        if watch is not None:
            watch.fire(None)
        return future


class _ErasesKeyByKey(Store):
    async def erase(self, key: str, version: int = 0) -> None:
        for request in await self._erasure(self._path(key)):
            await self.session.call(request)


def _line(operation: str, begins: str) -> Line:
    (found,) = (line for line in LINES if line.operation == operation and line.promise.startswith(begins))
    return found


@asynccontextmanager
async def _sessions_of(kind: type[Session], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    async def connect(addresses: Sequence[Address], **options: Any) -> Session:
        return await kind.open(addresses[0], **options)

    monkeypatch.setattr(checking, "connect", connect)
    yield


@pytest.mark.parametrize(
    ("kind", "operation", "begins", "wrong"),
    [
        (_ForgetsVersions, "cas", "leaves a key of another version", "must give (0, (1, b'value'))"),
        (_ForgetsVersions, "cas", "lets one of many win", "must give"),
        (_FiresForEverything, "commit, watch", "fires for what was done", "must give ('TxnFailed 1', False,"),
    ],
)
async def test_a_wrong_server_fails(
    kind: type[Session],
    operation: str,
    begins: str,
    wrong: str,
    zookeeper_server: ZooKeeperServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = Address("127.0.0.1", zookeeper_server.port)
    async with _sessions_of(kind, monkeypatch):
        verdict = await check_line(address, "/wrong-server", _line(operation, begins))
    assert wrong in verdict.wrong


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


def test_a_line_that_fails_is_named(
    zookeeper_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (LINES[0], LINES[1]._replace(expected="something else"))
    monkeypatch.setattr(checking, "LINES", lines)
    monkeypatch.setattr(command, "LINES", lines)
    assert command.main([f"it={zookeeper_server.address}"]) == 1
    printed = capsys.readouterr()
    assert "1 of 2 lines pass" in printed.out
    assert "offkv: FAILED at it: create refuses a key that is there: gives ('EntryExists'" in printed.err


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"127.0.0.1:{free_port()}"]) == 2
    assert capsys.readouterr().err.startswith("offkv: no session at 127.0.0.1:")


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["--start", "h:1"])
    assert end.value.code == 2
    assert "not both" in capsys.readouterr().err
