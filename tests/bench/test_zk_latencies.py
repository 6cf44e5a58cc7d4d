"""The lines of zk-latencies.py, from both servers."""

import re
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.zk_latencies import hosts_of, main, parser
from lab.servers import ZketcdServer, ZooKeeperServer
from lab.servers.process import ServerProcess

# One section's line; a quick one says that there is nothing to tell.
FIGURES = r" in +\d+ ms \(((\d+\.\d{6}) ms/op (\d+\.\d{6})/sec|included in prior)\)"
SECTIONS = [
    "created      12 permanent znodes ",
    "set          12           znodes ",
    "get          12           znodes ",
    "deleted      12 permanent znodes ",
    "created      12 ephemeral znodes ",
    "watched      24           znodes ",
    "deleted      12 ephemeral znodes ",
    "notif        24           watches",
]


@pytest.fixture(params=["zketcd_server", "zookeeper_server"])
def server(request: pytest.FixtureRequest) -> ServerProcess:
    started: ServerProcess = request.getfixturevalue(request.param)
    return started


@pytest.mark.real
@pytest.mark.parametrize("how", ["asynchronous", "syncronous"])
def test_both_servers_give_the_lines_of_the_tool(
    server: ZketcdServer | ZooKeeperServer, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--servers", f"{server.address},{server.address}", "--znode_count", "12"]
    options += ["--watch_multiple", "2", "--quiet", *(["--synchronous"] if how == "syncronous" else [])]
    assert main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    one = [re.escape(f"Testing latencies on server {server.address} using {how} calls")]
    one += [re.escape(section) + FIGURES for section in SECTIONS]
    expected = [*one, *one, "Latency test complete"]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line


@pytest.mark.real
def test_a_root_that_exists_is_kept_unless_forced(
    zketcd_server: ZketcdServer, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--cluster", zketcd_server.address, "--znode_count", "3"]
    assert main([*options, "--root_znode", "/zookeeper"]) == 1
    assert "Node /zookeeper already exists!" in capsys.readouterr().err
    # A run that is interrupted leaves its root behind; --force starts over.
    assert main([*options, "--root_znode", "/zookeeper/no/parent"]) == 1
    assert "NoNodeError" in capsys.readouterr().err
    assert main([*options, "--verbose", "--synchronous"]) == 0
    printed = capsys.readouterr().out
    assert f"Connecting to {zketcd_server.address}\nConnected in " in printed
    assert printed.count("Node /zk-latencies/session_2 created in ") == 2


def test_hosts_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    given = parser().parse_args(["--config", str(file)])
    with pytest.raises(BenchError, match="No such file"):
        hosts_of(given)
    file.write_text("# members\ntickTime=2000\n")
    with pytest.raises(BenchError, match=r"names no server\.N"):
        hosts_of(given)
    file.write_text("server.1=one:2888:3888\n")
    with pytest.raises(BenchError, match="no clientPort"):
        hosts_of(given)
    file.write_text(
        "clientPort=2181\nserver.1=one:2888:3888\nserver.2=two:2888:3888:participant;0.0.0.0:2182\n"
    )
    assert hosts_of(given) == ["one:2181,two:2182"]
