"""What the process says before it serves."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from console.people.passwords import line, make
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.config import Config, parse
from proxy.etcd.access import Access
from proxy.log.upkeep.snapshots import run_process
from proxy.server import Server
from serve.__main__ import Listeners, _bind, main


@pytest.mark.long
def test_an_audit_log_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    """What zoo.cfg says that has no meaning is named, each setting once, in the form that was asked for."""
    zoo = tmp_path / "zoo.cfg"
    zoo.write_text("clientPort=0\ninitLimit=5\nserver.1=a:1:2\nadmin.enableServer=false\nmine=1\n")
    audit = tmp_path / "none" / "audit.log"
    command = [sys.executable, "-m", "serve", "--zoo-cfg", str(zoo), "--audit-log", str(audit)]
    ended = subprocess.run(
        [*command, "--log-format", "json", "--data-dir", str(tmp_path / "data")],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    *messages, last = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert last == f"zketcd: --audit-log {audit}: No such file or directory"
    assert [(each["level"], each["message"]) for each in map(json.loads, messages)] == [
        ("INFO", f"{zoo}: without a meaning here: initLimit, server.1"),
        ("WARNING", f"{zoo}: unknown settings, ignored: mine"),
    ]
    assert not (tmp_path / "data").exists()


def test_secrets_that_everybody_can_read_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    contents = {
        "console": line("amy", make("correct horse")),
        "sasl": "bob:word",
        "zketcd.toml": '[zketcd]\nsasl-user = ["bob:word"]',
        "other.toml": '[zketcd]\nprefix = "/a"',
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o644)
    audit = ["--audit-log", str(tmp_path / "none" / "audit.log")]  # ends the start
    users = ["--console-users", str(tmp_path / "console"), "--sasl-users-file", str(tmp_path / "sasl")]
    assert main([*audit, *users, "--config", str(tmp_path / "zketcd.toml")]) == 1
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"every user of this host can read the secrets in {file} ({option}): run chmod o= {file}")
        for option, file in (
            ("--config", tmp_path / "zketcd.toml"),
            ("--console-users", tmp_path / "console"),
            ("--sasl-users-file", tmp_path / "sasl"),
        )
    ]
    caplog.clear()
    for name in contents:
        (tmp_path / name).chmod(0o640 if name != "other.toml" else 0o644)
    assert main([*audit, *users, "--config", str(tmp_path / "other.toml")]) == 1
    assert caplog.records == []
    capsys.readouterr()


@pytest.mark.long
def test_a_start_loads_the_admin_ports_libraries_only_for_an_admin_port(tmp_path: Path) -> None:
    """They take half of the CPU time of a start."""
    for admin, is_loaded in (("none", False), ("127.0.0.1:0", True)):
        program = (
            "import sys; from serve.__main__ import main;"
            f"main(['--admin-listen', '{admin}', '--audit-log', '{tmp_path}/none/audit.log']);"
            "print('aiohttp' in sys.modules)"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
        )
        assert ended.stdout == f"{is_loaded}\n"


def test_traces_without_their_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "proxy.traces.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert main(["--traces", "on"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "opentelemetry" in line
    assert "`make setup-otel`" in line


@pytest.mark.long
@pytest.mark.parametrize(
    "variable",
    [
        "EXPORTER_OTLP_PROTOCOL=grpc",
        "TRACES_EXPORTER=zipkin",
        "BSP_MAX_EXPORT_BATCH_SIZE=0",
        "SPAN_ATTRIBUTE_COUNT_LIMIT=many",
    ],
)
def test_traces_with_a_variable_that_cannot_be(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv(f"OTEL_{name}", value)
    assert main(["--traces", "on"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zketcd: ")
    assert "OTEL_" in line


def test_secrets_on_the_command_line_and_what_is_ignored_are_warnings(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zoo = tmp_path / "zoo.cfg"
    zoo.write_text("tickTim=1\nfrob=2\n")
    monkeypatch.setenv("ZKETCD_TEST_KILLS", "1")
    digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
    ends_the_start = ["--audit-log", str(tmp_path / "none" / "audit.log")]
    assert main([*ends_the_start, "--zoo-cfg", str(zoo), "--super-digest", digest]) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"{zoo}: unknown settings, ignored: tickTim (did you mean tickTime?), frob",
        "every user of this host can read --super-digest on the command line (ps): set ZKETCD_SUPER_DIGEST in"
        " the environment, or put it into the file of --config",
        "unknown environment variables, ignored: ZKETCD_TEST_KILLS",
    ]
    capsys.readouterr()


_PORTS = parse([f"{port}=127.0.0.1:0" for port in ("--listen", "--admin-listen", "--peer-listen")])


async def test_a_process_that_takes_over_has_every_port_that_it_gets_at_the_same_address() -> None:
    """One with another --peer-listen kept the old port, and told other proxies another address."""

    def must_match(config: Config) -> dict[str, str]:
        return Server(config, FakeEtcdClient(FakeEtcd()), partial(run_process, Access(()))).must_match

    config = replace(_PORTS, tls=replace(_PORTS.tls, secure=("127.0.0.1", 0)))
    listeners: Listeners = {}
    await asyncio.to_thread(_bind, config, listeners)
    for listener in listeners.values():
        listener.close()
    options = {"--listen" if name == "main" else f"--{name}-listen" for name in listeners}
    assert options == config.addresses.keys()
    assert options <= must_match(config).keys()
    assert "--peer-listen" not in must_match(replace(config, peer_listen=None)), "an upgrade may add it"
