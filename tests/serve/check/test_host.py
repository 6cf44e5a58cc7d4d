"""Findings about options, files and ports."""

import datetime
import os
import socket
from pathlib import Path
from unittest import mock

import pytest

from lab.servers.tls import Authority
from proxy.config import parse
from serve.check.finding import Grade
from serve.check.host import check_host

pytestmark = pytest.mark.usefixtures("no_environment")

_FREE = ["--listen", "127.0.0.1:0", "--admin-listen", "none", "--etcd", "127.0.0.1:1"]


def _found(*arguments: str) -> dict[str, tuple[Grade, str]]:
    """The last finding about each thing."""
    findings = check_host(parse([*_FREE, *arguments]))
    return {finding.about: (finding.grade, finding.text) for finding in findings}


def test_a_good_host() -> None:
    assert {grade for grade, _ in _found().values()} == {Grade.GOOD}


def test_secrets_and_unknown_names_are_doubtful(tmp_path: Path) -> None:
    zoo = tmp_path / "zoo.cfg"
    zoo.write_text("frob=1\n")
    users = tmp_path / "users"
    users.write_text("bob:word\n")
    users.chmod(0o644)
    with mock.patch.dict(os.environ, {"ZKETCD_TEST_KILLS": "1"}):
        found = _found("--sasl-user", "bob:word", "--zoo-cfg", str(zoo), "--sasl-users-file", str(users))
    for about, said in (
        ("--sasl-user", "(ps)"),
        ("environment", "ZKETCD_TEST_KILLS"),
        (str(zoo), "frob"),
        ("--sasl-users-file", f"chmod o= {users}"),
    ):
        grade, text = found[about]
        assert grade is Grade.DOUBTFUL
        assert said in text


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    found = _found("--admin-listen", "127.0.0.1:0", "--console-users", __file__, "--audit-log", str(tmp_path))
    assert found["files"][0] is Grade.WRONG
    assert f"{__file__}, line 1" in found["files"][1]
    assert found["--audit-log"] == (Grade.WRONG, f"{tmp_path} cannot be written")
    log = tmp_path / "audit.log"
    assert _found("--audit-log", str(log))["--audit-log"][0] is Grade.GOOD
    assert not log.exists()


def test_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert _found("--listen", address)["--listen"] == (
            Grade.DOUBTFUL,
            f"{address} is in use: by a running zketcd?",
        )
    assert _found("--admin-listen", "192.0.2.1:8080")["--admin-listen"][0] is Grade.WRONG


def test_a_host_without_the_default_address_of_the_admin_port_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one with IPv6 alone: the server starts all the same."""
    monkeypatch.setattr("proxy.config._DEFAULT_ADMIN", ("192.0.2.1", 8080))
    found = {each.about: each for each in check_host(parse(["--listen", "127.0.0.1:0"]))}
    assert found["--admin-listen"].grade is Grade.DOUBTFUL


def test_an_embedded_etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    found = _found("--etcd", "embedded", "--data-dir", str(data))
    assert found["--data-dir"] == (Grade.GOOD, f"{data} can be written")
    assert not data.exists()
    monkeypatch.setattr("proxy.etcd.embedded.importlib.util.find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert _found("--etcd", "embedded", "--data-dir", str(data))["embedded etcd"][0] is Grade.WRONG


def test_certificates_that_end(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    now = datetime.datetime.now(datetime.UTC)
    for days, grade in ((1.5, Grade.DOUBTFUL), (50, Grade.GOOD)):
        leaf = authority.authority.issue_cert(
            "a", not_before=now - datetime.timedelta(days=40), not_after=now + datetime.timedelta(days=days)
        )
        chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
        pair = authority.write("a", chain, leaf.private_key_pem.bytes())
        files = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--tls-client-auth", "none"]
        of_etcd = ["--etcd-cert", str(pair.cert), "--etcd-key", str(pair.key), "--etcd-ca", str(authority.ca)]
        etcd = ["--etcd", "https://127.0.0.1:1"]
        found = _found(*files, *of_etcd, *etcd)
        assert found["--tls-cert"][0] is found["--etcd-cert"][0] is grade
        assert f"{pair.cert} ends on " in found["--tls-cert"][1]
        assert found["--etcd-ca"][0] is Grade.GOOD
