"""What an operator may get wrong: one line, an exit code, and nothing changed."""

import datetime
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from lab.servers.tls import Authority
from serve.__main__ import main

_EXPIRED = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_PORTS = ("--listen", "127.0.0.1:0", "--admin-listen", "none")
_TLS = "--tls-client-auth none --tls-cert"
_CONSOLE = "--admin-listen 127.0.0.1:0 --console-users"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every wrong kind."""
    folder = tmp_path_factory.mktemp("bad")
    authority = Authority(folder)
    good = authority.issue("good")
    authority.issue("other")
    leaf = authority.authority.issue_cert("old.example.org", not_after=_EXPIRED)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
    authority.write("old", chain, leaf.private_key_pem.bytes())
    key = load_pem_private_key(good.key.read_bytes(), None)
    for name, form in (("pkcs8", PrivateFormat.PKCS8), ("traditional", PrivateFormat.TraditionalOpenSSL)):
        sealed = key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"right"))
        (folder / f"{name}.key.pem").write_bytes(sealed)
    (folder / "half.pem").write_bytes(good.cert.read_bytes()[:200])
    (folder / "directory").mkdir()
    for name, content in {
        "half.toml": '[zketcd]\nlisten = "127.0.0.1:0',
        "unknown.toml": '[zketcd]\nlitsen = "127.0.0.1:0"\n',
        "twice.toml": '[zketcd]\nprefix = "/a"\nprefix = "/b"\n',
        "nested.toml": '[zketcd.tls]\ncert = "x"\n',
        "deep.toml": f"[zketcd]\n{'a.' * 3000}b = 1\n",
        "table.toml": '[zketcd]\nsasl-user = {bob = "secret"}\n',
        "tables.toml": '[zketcd]\nsasl-user = [{bob = "secret"}]\n',
        "pipe.cfg": "ssl.keyStore.passwordPath=pipe\n",
        "half.jaas": "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_a=",
        "users": "amy\n",
    }.items():
        (folder / name).write_text(content)
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(folder / "pipe")  # that nobody writes into
    return folder


@pytest.fixture
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the process's own folder."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The program sets up its process's logging."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _end_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of the server, and the one line that it prints."""
    try:
        code = main(arguments, "serve")
    except SystemExit as ended:
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return code, line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--config half.toml", "half.toml: Couldn't parse TOML file: "),
        ("--config twice.toml", "twice.toml: Couldn't parse TOML file: Cannot overwrite a value"),
        ("--config binary", "binary: Couldn't parse TOML file: 'utf-8' codec"),
        ("--config directory", "Is a directory: '"),
        ("--config pipe", "'pipe' is a named pipe"),
        ("--config unknown.toml", "arguments: --litsen (unknown.toml, line 2) (did you mean --listen?)"),
        ("--config nested.toml", "unrecognized arguments: --tls (nested.toml, line 1)"),
        ("--config deep.toml", "deep.toml: Couldn't parse TOML file: it is nested too deeply"),
        ("--config table.toml", "--sasl-user: a text is expected, not a table (table.toml, line 2)"),
        ("--config tables.toml", "--sasl-user: a text is expected, not a table (tables.toml, line 2)"),
        ("--listen example..org:0", "'example..org:0' is not HOST:PORT"),
        (f"--listen {'x' * 64}.org:0", "is not HOST:PORT"),
        ("--etcd http://example..org:2379", "'http://example..org:2379' is not an etcd endpoint"),
        ("--prefix /a\x1b[31m", r"'/a\x1b[31m' has control characters"),
        ("--availability-zone \udcff", "--availability-zone: it is not UTF-8"),
        ("--zoo-cfg directory", "directory' is not a readable file"),
        (f"{_TLS} old.cert.pem --tls-key old.key.pem", "old.cert.pem: it has expired"),
        (f"{_TLS} pipe --tls-key good.key.pem", "'pipe' is a named pipe"),
        ("--zoo-cfg pipe.cfg", "passwordPath: it cannot be read: 'pipe' is a named pipe"),
        (f"{_TLS} good.cert.pem --tls-key other.key.pem", "key values mismatch"),
        (f"{_TLS} half.pem --tls-key good.key.pem", "good.key.pem: the PEM is not complete"),
        (f"{_TLS} directory --tls-key good.key.pem", "directory' is not a readable file"),
        (f"{_TLS} good.cert.pem --tls-key pkcs8.key.pem", "its password is missing or wrong"),
        (f"{_TLS} good.cert.pem --tls-key traditional.key.pem --tls-key-password x", "missing or wrong"),
        ("--etcd-cert good.cert.pem --etcd-key pkcs8.key.pem", "must not be encrypted: the key is encrypted"),
        ("--etcd-cert old.cert.pem --etcd-key old.key.pem", "for etcd old.cert.pem: it has expired"),
        ("--etcd-cert good.cert.pem --etcd-key other.key.pem", "key values mismatch"),
        ("--etcd-ca binary", "the CA of etcd binary: "),
        (f"{_CONSOLE} users", "users, line 1: it is not NAME:scrypt:"),
        (f"{_CONSOLE} binary", "binary: it is not UTF-8"),
        ("--sasl-users-file users", "users: line 1: a user without a name or colon"),
        ("--sasl-users-file binary", "binary: it is not UTF-8"),
        ("--jaas-file half.jaas", "half.jaas: "),
        ("--jaas-file directory", "directory' is not a readable file"),
        ("--audit-log pipe", "--audit-log pipe: a socket, or a pipe without a reader"),
        ("--audit-log directory", "--audit-log directory: Is a directory"),
        pytest.param(
            "--data-dir /proc/x",
            "the data directory /proc/x cannot be used: [Errno 2]",
            marks=pytest.mark.real,  # an etcd is looked for first
        ),
        (
            "--etcd http://127.0.0.1:1 --etcd-ca binary",
            "--etcd-ca and --etcd-cert are for https:// endpoints",
        ),
    ],
)
def test_wrong_input_is_one_line_and_changes_nothing(
    arguments: str, said: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """systemd tries again after 1, not after 2. The embedded etcd would make a folder `data`."""
    before = {path: path.stat().st_mtime_ns for path in files.rglob("*")}
    code, line = _end_of([*_PORTS, *arguments.split()], capsys)
    assert code == (2 if line.startswith("zketcd serve: error: ") else 1)
    assert line.startswith("zketcd")
    assert said in line
    assert {path: path.stat().st_mtime_ns for path in files.rglob("*")} == before


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("value", ["77", "soon", "9" * 400])
def test_a_variable_that_only_an_upgrade_sets(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_ZKETCD_TAKE_OVER", value)
    assert _end_of([*_PORTS], capsys) == (
        2,
        f"zketcd: _ZKETCD_TAKE_OVER={value[:20]} is no socket of a process that serves: unset it",
    )


@pytest.mark.usefixtures("files")
def test_a_library_that_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be there at the next start."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "proxy.etcd.grpc_channel", raising=False)
    code, line = _end_of([*_PORTS, "--etcd", "http://127.0.0.1:1", "--etcd-transport", "grpcio"], capsys)
    assert code == 1
    assert line.startswith("zketcd: the transport grpcio cannot be used: ")


@pytest.mark.parametrize("option", ["--listen", "--admin-listen", "--secure-listen"])
def test_a_port_in_use(option: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tls = f"{_TLS} good.cert.pem --tls-key good.key.pem".split()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = _end_of([*_PORTS, *tls, option, address], capsys)
    assert ended == (1, f"zketcd: cannot listen on {address}: Address already in use")
    assert not (files / "data").exists()
