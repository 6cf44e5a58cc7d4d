"""The command: on two servers with rounds and JSON, with a violation, without a server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from examples.tree import paths_below
from examples.zero_copy import __main__ as command
from examples.zero_copy.run import Findings
from examples.zero_copy.storage import Violation
from lab.client.session import Address, connected
from lab.servers import ZooKeeperServer


def _left_of(server: ZooKeeperServer, root: str) -> list[str]:
    async def look() -> list[str]:
        async with connected([Address("127.0.0.1", server.port)]) as session:
            return await paths_below(session, root)

    return asyncio.run(look())


def test_two_servers_side_by_side(
    zookeeper_server: ZooKeeperServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    one, two = (f"{label}={zookeeper_server.address},{zookeeper_server.address}" for label in ("one", "two"))
    arguments = [one, "--beside", two, "--below", "/two/of", "--hosts", "2", "--seconds", "0.2"]
    assert command.main([*arguments, "--rounds", "2", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "|  | one | two | one / two |" in printed
    for row in ("inserts a second", "insert, p50, ms", "a request, p99, ms", "requests an insert"):
        assert f"| {row} |" in printed
    assert printed.endswith("all invariants held\n")
    written = json.loads(path.read_text())
    assert written["options"]["rounds"] == 2
    assert written["servers"]["two"]["inserts"] > 0
    assert written["environment"]["cores"]
    assert _left_of(zookeeper_server, "/two/of") == ["/two/of"]


def test_a_violation_is_named_and_what_is_left_stays(
    zookeeper_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: Any, **__: Any) -> Findings:
        raise Violation("marked", "data are gone")

    monkeypatch.setattr(command, "run", broken)
    assert command.main([f"it={zookeeper_server.address}", "--below", "/bad"]) == 1
    assert "zero_copy: VIOLATED at it: marked: data are gone (what is left" in capsys.readouterr().err
    assert len(_left_of(zookeeper_server, "/bad")) == 2
