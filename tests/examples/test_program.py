"""What the commands have in common, with the smallest workload that there can be."""

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path

import pytest

from codec.client import create
from examples import program
from examples.invariants import Violation
from examples.program import Findings, Surroundings, Workload
from examples.tree import paths_below
from lab.arguments import count
from lab.client.session import Address, connect, connected
from lab.servers import ZooKeeperServer
from lab.servers.ports import free_port


async def _run(surroundings: Surroundings, options: argparse.Namespace) -> Findings:
    session = await connect(surroundings.addresses, meter=surroundings.meter)
    begun = time.perf_counter()
    for number in range(options.nodes):
        await session.call(create(f"{surroundings.root}/{number}"))
    await session.close()
    if options.nodes == 13:
        raise Violation("no-thirteen", "there are 13 nodes")
    return Findings(
        options.nodes, time.perf_counter() - begun, {"a node": Counter({1500: options.nodes})}, {"facts": 7}
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=count, default=3, help="how many")


WORKLOAD = Workload("smallest", "Make some nodes.", "node", "nodes", _add_options, _run)


def _left_of(server: ZooKeeperServer, root: str) -> list[str]:
    async def look() -> list[str]:
        async with connected([Address("127.0.0.1", server.port)]) as session:
            return await paths_below(session, root)

    return asyncio.run(look())


def test_a_run_on_one_server(zookeeper_server: ZooKeeperServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(WORKLOAD, [zookeeper_server.address, "--below", "/program/one"]) == 0
    printed = capsys.readouterr().out
    assert f"|  | {zookeeper_server.address} |" in printed
    for row in ("nodes a second", "a node, p50, ms | 1.5", "requests a node | 1.33", "of these CREATE | 1 "):
        assert f"| {row}" in printed
    assert "facts | 7" in printed
    assert printed.endswith("all invariants held\n")
    assert _left_of(zookeeper_server, "/program/one") == ["/program/one"]


def test_a_run_beside_another_server(
    zookeeper_server: ZooKeeperServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    one, two = (f"{label}={zookeeper_server.address},{zookeeper_server.address}" for label in ("one", "two"))
    assert program.main(WORKLOAD, [one, "--beside", two, "--rounds", "2", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "|  | one | two | one / two |" in printed
    assert "| requests a node | 1.33 | 1.33 | 1 |" in printed
    written = json.loads(path.read_text())
    assert written["workload"] == "smallest"
    assert written["options"]["rounds"] == 2
    assert written["servers"]["two"]["nodes"] == 3
    assert written["environment"]["cores"]


def test_a_violation_is_named_and_what_is_left_stays(
    zookeeper_server: ZooKeeperServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(WORKLOAD, [f"it={zookeeper_server.address}", "--nodes", "13", "--below", "/bad"]) == 1
    assert (
        "smallest: VIOLATED at it: no-thirteen: there are 13 nodes (what is left" in capsys.readouterr().err
    )
    assert len(_left_of(zookeeper_server, "/bad")) == 15


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    assert program.main(WORKLOAD, [nobody]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"smallest: no session at {nobody}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a server's address or --start"),
        (["--start", "--beside", "h:1"], "leave --beside out"),
        (["h:1", "--beside", "h:1"], "both servers have the label h:1"),
        (["h"], "'h' isn't HOST:PORT"),
        (["=h:1"], "has an empty label"),
        (["h:1", "--below", "a"], "isn't the path of a node"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        program.main(WORKLOAD, arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
