"""The commands that act as a client, on a served tree."""

import io
import os
import pty
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli import client
from cli.client import Client
from codec import client as zk
from codec.constants import CreateMode
from codec.jute import Acl
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.tls import Authority
from lab.servers.waiting import wait_until
from tests.conftest import TICK_TIME_MS
from zketcd.__main__ import main
from zketcd.online import nodes
from zketcd.online.main import changed_acl
from zketcd.online.shell import Shell

_BOB = "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM="  # the password is pw


class Caller:
    """Runs commands on one server."""

    def __init__(self, server: ZketcdServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = f"127.0.0.1:{server.port}"
        self.address = "127.0.0.1", server.port
        self._capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        assert main([*words, "--server", self.server]) == status
        out, err = self._capsys.readouterr()
        return err if status else out

    def session(self) -> Client:
        return Client(self.address, [])


@pytest.fixture(scope="module")
def server(etcd_server: EtcdServer) -> Iterator[ZketcdServer]:
    """One that all of this file shares."""
    prefix = f"/test-online-{os.getpid()}"
    with ZketcdServer(etcd_server.endpoint, prefix=prefix, tick_time=TICK_TIME_MS) as started:
        yield started


@pytest.fixture
def call(server: ZketcdServer, capsys: pytest.CaptureFixture[str]) -> Iterator[Caller]:
    """On an empty tree."""
    caller = Caller(server, capsys)
    yield caller
    with closing(caller.session()) as session:
        for path in reversed(list(nodes.walk(session, "/"))):
            if path != "/" and not path.startswith("/zookeeper"):
                session.call(zk.delete(path))


def test_nodes_are_created_set_and_deleted(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NO_NODE" in call("create", "/a/b/c", "text", status=1)
    assert call("create", "/a/b/c", "text", "--parents") == "/a/b/c\n"
    assert call("create", "/a/s-", "--mode", "sequential") == "/a/s-0000000001\n"
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\x00\xff\r\n"), isatty=lambda: False)
    )
    assert call("set", "/a/b/c", "-").startswith("/a/b/c has version 1, zxid 0x")
    session = call.session()
    assert session.call(zk.get("/a/b/c")).data == b"\x00\xff\r\n"
    session.close()
    assert "BAD_VERSION" in call("set", "/a/b/c", "x", "--if-version", "7", status=1)
    assert "NOT_EMPTY" in call("delete", "/a", status=1)
    assert call("rmr", "/a", "--dry-run").splitlines() == ["/a", "/a/b", "/a/b/c", "/a/s-0000000001"]
    call("rmr", "/a")
    assert "NO_NODE" in call("rmr", "/a", status=1)
    for own in ("/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
        assert f"{own} is ZooKeeper's own node" in call("rmr", own, status=1)


def test_many_nodes_with_long_names_are_deleted(call: Caller) -> None:
    session = call.session()
    session.call(zk.create("/a"))
    for number in range(150):
        session.call(zk.create(f"/a/{number}{'n' * 9000}"))
    session.close()
    call("rmr", "/a")
    assert call("shell", "ls", "/") == "zookeeper\n"


def _closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_of_several_servers_the_first_that_gives_a_session_is_used(call: Caller) -> None:
    closed = f"127.0.0.1:{_closed_port()}"
    working, call.server = call.server, f"{closed},{call.server}"
    assert call("shell", "ls", "/") == "zookeeper\n"
    call.server = closed
    assert call("delete", "/a", status=1) == f"zketcd delete: {closed}: Connection refused\n"
    assert working not in call("delete", "/a", status=1)


def test_a_session_is_kept_alive_while_another_as_silent_expires(
    etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, tick_time=100) as server:
        address = ("127.0.0.1", server.port)
        with closing(Client(address, [])) as session, closing(Client(address, [])) as silent:
            silent.call(zk.create("/silent", mode=CreateMode.EPHEMERAL))
            with session.kept_alive(), closing(Client(address, [])) as watcher:
                exists = zk.exists("/silent")
                wait_until(lambda: watcher.call(exists) is None, "the silent session has expired")
            assert session.call(zk.children("/")).names == ["zookeeper"]


@pytest.mark.usefixtures("_impatient")
def test_what_does_not_answer_as_a_zookeeper_is_named(call: Caller, etcd_server: EtcdServer) -> None:
    call.server = etcd_server.endpoint.partition("://")[2]
    error = call("delete", "/a", status=1)
    assert error.startswith(f"zketcd delete: {call.server}")
    assert "is it a port for ZooKeeper clients?" in error


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_CONNECT_TIMEOUT", 1.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--server", "http://h:1"), "'http://h:1' is not HOST:PORT"),
        (("--server", "h:1/app"), "(a chroot): give whole paths of nodes instead"),
        (("--server-ca", __file__), f"{__file__}: no certificate or crl found"),
        (("--ttl", "0"), "from 1 to 1099511627775, in milliseconds"),
        (("--ttl", str(1 << 63)), "from 1 to 1099511627775, in milliseconds"),
    ],
)
def test_wrong_options_are_named(
    options: tuple[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["create", "/a", *options])
    assert expected in capsys.readouterr().err


def test_a_server_that_knows_no_users_is_reported(
    call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKETCD_SERVER_PASSWORD", "pw")
    user = ("--server-user", "bob")
    assert "the server has no users for SASL (DIGEST-MD5)" in call("create", "/a", *user, status=1)
    authority = Authority(tmp_path, "ca")
    assert "TLS failed" in call("create", "/a", "--server-ca", str(authority.ca), status=1)


def test_a_server_that_does_not_know_the_password_is_another(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter([b'realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess', b"rspauth=" + b"0" * 32])
    monkeypatch.setattr(Client, "_answer", lambda *_: next(said))
    user = ("--server-user", "bob", "--server-password", "pw")
    assert "has not proved that it knows the password" in call("create", "/a", *user, status=1)


def test_a_ttl_may_be_longer_than_a_month(call: Caller) -> None:
    call("create", "/ttl", "--ttl", str(40 * 86400 * 1000))
    call("rmr", "/ttl")


def test_acls_are_shown_and_then_changed_under_the_callers_identities(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("create", "/a/b", "--parents")
    change = ("acl", "/a", "-R", "--set", f"{_BOB}:rwcda")
    line = f"world:anyone:rwcda -> {_BOB}:rwcda"
    assert call(*change).splitlines() == [f"/a: {line}", f"/a/b: {line}"]
    assert call(*change).splitlines() == [f"/a: {line}", f"/a/b: {line}"], "nothing was written"
    call(*change, "--yes")
    assert "NO_AUTH" in call("rmr", "/a", status=1)
    monkeypatch.setenv("ZKETCD_AUTH", "digest:bob:pw")
    assert call(*change, "--yes") == "", "there is nothing to change"
    assert call("acl", "/a", "--add", "world:anyone:r", "--yes").endswith(",world:anyone:r\n")
    assert "no entry would be left" in call("acl", "/a/b", "--remove", _BOB, status=1)
    call("rmr", "/a")


def test_a_node_that_goes_while_acls_are_changed_is_left_out(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("create", "/a/b", "--parents")
    monkeypatch.setattr(nodes, "walk", lambda *_: ["/a", "/a/gone", "/a/b"])
    change = ("acl", "/a", "-R", "--add", f"{_BOB}:r", "--yes")
    assert [line.partition(":")[0] for line in call(*change).splitlines()] == ["/a", "/a/b"]
    monkeypatch.undo()
    assert "NO_NODE" in call("acl", "/gone", "-R", "--add", f"{_BOB}:r", status=1)
    call("rmr", "/a")


def test_what_becomes_of_an_acl() -> None:
    one, two, new = Acl(1, "world", "anyone"), Acl(31, "ip", "10.0.0.1"), Acl(2, "world", "anyone")

    def made(**options: object) -> Sequence[Acl]:
        return changed_acl((one, two), SimpleNamespace(**{"set": None, "add": None, "remove": "", **options}))

    assert made(set=(new,)) == (new,)
    assert made(add=(new,)) == (two, new)
    assert made(remove="ip:10.0.0.1") == (one,)
    assert nodes.parsed_acl("ip:::1:rw,world:anyone:cda") == (Acl(3, "ip", "::1"), Acl(28, "world", "anyone"))
    ann = Acl(31, "x509", r"CN=ann,OU=ops,O=Example\, Inc.,2.5.4.97=x")
    acl = (ann, Acl(1, "world", "anyone"), ann)
    assert nodes.parsed_acl(nodes.acl_text(acl)) == acl
    for wrong in (
        "",
        "world",
        "world:anyone",
        "world:anyone:x",
        "world:anyone:",
        ":x:r",
        "ip:10.0.0.1,10.0.0.2:r",
    ):
        with pytest.raises(ValueError, match="is not SCHEME:ID:PERMISSIONS"):
            nodes.parsed_acl(wrong)


@pytest.mark.parametrize("text", ["2147483648", "-2", "one", ""])
def test_what_is_no_version_is_refused(text: str) -> None:
    assert (nodes.parsed_version("-1"), nodes.parsed_version("2147483647")) == (-1, 2147483647)
    with pytest.raises(ValueError, match="is not a whole number from -1 to 2147483647"):
        nodes.parsed_version(text)


def test_a_script_of_the_shell_ends_at_the_first_failure(
    call: Caller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "create a 'two words'",
        "cd a",
        "pwd",
        "create -e x",
        "set . new",
        "get",
        "ls",
        "exists x/y",
        "stat",
    ]
    lines += ["cd ..", "setAcl a world:anyone:rwcda", "getAcl a", "nonsense", "rmr a"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    assert main(["shell", "--server", call.server]) == 1
    out, err = capsys.readouterr()
    shown = out.splitlines()
    assert shown[:6] == ["/a", "/a", "/a/x", "new", "x", "0"]
    assert [line for line in shown if line.startswith(("czxid = 0x", "ctime = 20"))]
    assert shown[-1] == "world:anyone:rwcda"
    assert err == "unknown command 'nonsense': `help` lists all\n"
    assert call("shell", "ls", "/") == "a\nzookeeper\n", "the ephemeral is gone, and rmr did not run"


@pytest.mark.parametrize("command", ["rmr", "delete"])
def test_an_empty_word_is_not_the_current_node(
    call: Caller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A script with a variable that was not set deleted it."""
    script = f"create /here\ncd /here\n{command} ''"
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    assert main(["shell", "--server", call.server]) == 1
    assert capsys.readouterr().err == "'' is no path of a node\n"
    call("rmr", "/here")


def test_paths_and_commands_are_completed(call: Caller) -> None:
    session = call.session()
    shell = Shell(session)
    for path in ("/app", "/app/one", "/app/only", "/apple"):
        session.call(zk.create(path))
    assert shell.candidates("set") == ["set ", "setacl "]
    assert shell.candidates("ls /app") == ["ls /app", "ls /apple"]
    assert shell.candidates("ls -R /app/o") == ["ls -R /app/one", "ls -R /app/only"]
    assert shell.candidates("ls /none/x") == []
    assert shell.candidates("delete /app/one ") == [], "it would be a version"
    session.call(zk.create("/apple\u202e"))
    assert shell.candidates("ls /appl") == ["ls /apple"], "readline would print it as it is"
    shell.run_line(["cd", "/app"])
    assert shell.candidates("ls on") == ["ls one", "ls only"]
    assert shell.candidates("ls ../appl") == ["ls ../apple"]
    session.call(zk.create("/app/-R"))
    assert shell.candidates("ls -") == [], "it would be an option"
    assert shell.candidates("ls ./-") == ["ls ./-R"]
    session.close()


class _Terminal:
    """The shell on a terminal."""

    def __init__(self, call: Caller, home: Path) -> None:
        self._main_end, other = pty.openpty()
        self._shell = subprocess.Popen(
            [sys.executable, "-m", "zketcd", "shell", "--server", call.server],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "HOME": str(home), "TERM": "dumb"},
        )
        os.close(other)
        self._seen = b""
        self.until("/ :) ")

    def type(self, text: str) -> None:
        os.write(self._main_end, text.encode())

    def until(self, wanted: str) -> None:
        while wanted.encode() not in self._seen:
            assert select.select([self._main_end], [], [], 60)[0], self._seen
            self._seen += os.read(self._main_end, 1000)
        self._seen = self._seen.partition(wanted.encode())[2]

    def end(self) -> None:
        self.type("exit\n")
        self.until("exit")
        assert self._shell.wait(60) == 0
        os.close(self._main_end)


def test_a_terminal_has_a_prompt_completion_and_history(call: Caller, tmp_path: Path) -> None:
    call("create", "/folder/inside\u202e/more", "--parents")
    shell = _Terminal(call, tmp_path)
    shell.type("ls /fol\t\n")
    shell.until("ls /folder")
    shell.until("inside\\u202e")
    shell.type("cd /folder/inside\u202e\n")
    shell.until("/folder/inside\\u202e :) ")
    shell.end()
    with open(f"{tmp_path}/.zketcd_history") as history:
        assert [line.strip() for line in history][-3::2] == ["ls /folder", "exit"]


def test_a_completed_name_reaches_its_own_node(call: Caller, tmp_path: Path) -> None:
    """Clients choose names: a quote, a backslash or a blank in one must not lead to another node."""
    kept = ["/q", "/q/app", "/q/app/data", "/q/db", "/q/job"]
    session = call.session()
    for path in (*kept, "/q/app''", "/q/j\\ob", "/q/db 0", "/q/job#1"):
        session.call(zk.create(path))
    shell = _Terminal(call, tmp_path)
    shell.type("rmr /q/app'\t\n")
    shell.until("No closing quotation")
    for typed, deleted in {
        "rmr /q/app\\\t": "/q/app''",
        "delete /q/j\\\\\t": "/q/j\\ob",
        "delete '/q/db \t": "/q/db 0",
        "rmr /q/job#1": "/q/job#1",
    }.items():
        shell.type(f"{typed}\n")
        shell.until(f"{deleted}: deleted 1 node")
    shell.end()
    assert list(nodes.walk(session, "/q")) == kept
    session.close()
