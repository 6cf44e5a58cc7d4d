"""The commands as people run them: outputs and their form, exit codes, errors."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cli.connection import endpoints
from cli.output import CommandFailed, Output, counted, date, say, size, table, visible
from codec.constants import OpCode
from codec.jute import pack_string
from ctl.changes import void
from ctl.main import parser
from lab.fakes.etcd import FakeEtcdClient, Fate
from lab.servers import EtcdServer
from lab.servers.link import Link
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Get, Put, RangeResult, Txn
from schema.entry import Kind, Request
from tests.proxy.log.trees import Tree, created
from tests.table import one_by_one
from zketcd.__main__ import main


class Ctl:
    """The command on one tree."""

    def __init__(self, etcd: EtcdServer, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.etcd = etcd
        self.prefix = prefix
        self._capsys = capsys
        self.positions: list[int] = []

    def run(self, what: Callable[[Tree], Awaitable[object]]) -> None:
        """Do this with the tree."""

        async def inner() -> None:
            client = EtcdClient([self.etcd.endpoint])
            try:
                await what(Tree(client, self.prefix))
            finally:
                await client.close()

        asyncio.run(inner())

    def __call__(self, name: str, *arguments: str, status: int = 0) -> str:
        """What it prints; on stderr if it fails."""
        assert main([name, "--etcd", self.etcd.endpoint, "--prefix", self.prefix, *arguments]) == status
        out, err = self._capsys.readouterr()
        assert bool(out) != bool(status)
        return err if status else out

    def json(self, name: str, *arguments: str) -> Any:
        return json.loads(self(name, "--json", *arguments))

    def shell(self, line: str, **environment: str) -> tuple[str, str, int]:
        """A process's output, errors and exit code."""
        named = {"ZKETCD_ETCD": self.etcd.endpoint, "ZKETCD_PREFIX": self.prefix, **environment}
        ended = subprocess.run(
            f"{sys.executable} -m zketcd {line}",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **named},
        )
        return ended.stdout, ended.stderr, ended.returncode


@pytest.fixture
def ctl(etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """A tree of two proxies with some nodes, and the command."""
    ctl = Ctl(etcd_server, etcd_prefix, capsys)

    async def fill(tree: Tree) -> None:
        await tree.make()
        await tree.come("a", "b")
        ctl.positions.append(await tree.create("a", "/one", "/one/x", data=b"text"))
        session = tree.session("b")
        ctl.positions.append(await tree.send("b", [created(session, "/one/e", b"\xff\x00", flags=1)]))
        delete = Request(Kind.CLIENT, session, OpCode.DELETE, (), pack_string("/one/x") + b"\xff" * 4)
        ctl.positions.append(await tree.send("b", [delete]))

    ctl.run(fill)
    return ctl


def test_reading_the_tree(ctl: Ctl) -> None:
    assert ctl("ls", "/").split() == ["one", "zookeeper"]
    assert ctl("ls", "-R", "/one").split() == ["/one", "/one/e"]
    shown = ctl("get", "/one")
    assert shown.startswith("text\n")
    assert "acl = world:anyone:rwcda" in shown
    assert "numChildren = 1" in shown
    assert ctl("get", "/one/e").startswith("ff 00\n"), "what is no text is shown in hexadecimal"
    assert ctl("get", "--hex", "/one").startswith("74 65 78 74\n")
    document = ctl.json("get", "/one")
    assert (document["data"], document["stat"]["czxid"]) == ("text", 3)
    assert "czxid = 0x3\n" in ctl("stat", "/one")
    assert re.search(r"\nctime = \d+ \(\d{4}-\d\d-\d\dT[\d:.]+\+00:00\)\n", ctl("stat", "/one"))
    assert ctl("stat", "/no", status=1) == "zketcd stat: there is no node /no\n"
    assert "a path begins with /" in ctl("ls", "one", status=1)
    ephemerals = {each["proxy"]: each["ephemerals"] for each in ctl.json("sessions")}
    assert ephemerals == {"a": [], "b": ["/one/e"]}
    head = ["session", "timeout_ms", "proxy", "ephemerals", "host", "client"]
    assert ctl("sessions").splitlines()[0].split() == head


def test_sessions_are_sorted_filtered_and_killed(ctl: Ctl) -> None:
    def proxies(*arguments: str) -> list[str]:
        return [each["proxy"] for each in ctl.json("sessions", *arguments)]

    assert proxies("--sort", "ephemerals") == ["b", "a"]
    assert proxies("--proxy", "a") == ["a"]
    assert proxies("--client", "10.0.0.0/8") == [], "the clients of these proxies are unknown"
    assert "--client: " in ctl("sessions", "--client", "nowhere", status=2)
    victim = ctl.json("sessions", "--proxy", "b")[0]["session"]
    assert ctl("kill-session", victim) == f"session {victim} is ended, with 1 ephemeral\n/one/e\n"
    assert proxies() == ["a"]
    assert ctl("ls", "/one") == "\n"
    (close,) = ctl.json("log", "--tail", "1")[0]["requests"]
    assert (close["kind"], close["session"]) == ("CLOSE", victim)
    assert close["reason"].startswith("killed by ")
    assert "there is no session" in ctl("kill-session", victim, status=1)
    life = ctl.json("session", victim)
    assert [each["event"].partition(",")[0] for each in life["events"]] == [
        "opened",
        f"ended: {close['reason']}",
    ]
    assert "it lives, held by" in ctl("session", ctl.json("sessions")[0]["session"]).splitlines()[-1]
    assert "nothing is known of session 0x5" in ctl("session", "0x5", status=1)


def test_the_tree_as_it_was(ctl: Ctl) -> None:
    first, second, third = map(str, ctl.positions)
    assert ctl("replay", "--to", first, "ls", "-R", "/one").split() == ["/one", "/one/x"]
    assert ctl("replay", "--to", second, "ls", "/one").split() == ["e", "x"]
    assert ctl("replay", "--to", third, "ls", "/one").split() == ["e"]
    assert "yet to come" in ctl("replay", "--to", "2000000000", "ls", "/", status=1)

    async def two_snapshots(tree: Tree) -> None:
        await _resumed(tree)
        for path in ("/two", "/three"):
            await tree.snapshot("a")
            await tree.create("a", path)

    ctl.run(two_snapshots)
    assert "reaches back to position" in ctl("replay", "--to", first, "sessions", status=1)


async def _resumed(tree: Tree) -> None:
    """Have the proxies of the fixture's tree continue here."""
    tree.numbers = {"a": 2, "b": 3}
    kvs = await tree.etcd.range(Get(tree.keys.proxies, tree.keys.proxies_end), 5)
    tree.revisions = {kv.key.decode().rpartition("/")[2]: kv.create_revision for kv in kvs.kvs}


def test_the_log_and_its_sizes(ctl: Ctl) -> None:
    shown = ctl("log", "--tail", "2").splitlines()
    assert shown[0].startswith(f"{ctl.positions[1]}  b  2  2023-11-14T22:13:20.000+00:00")
    assert "CREATE /one/e" in shown[1]
    assert "DELETE /one/x" in shown[3]
    entries = ctl.json("log")
    assert [each["requests"][0]["kind"] for each in entries] == ["OPEN", "OPEN", "CLIENT", "CLIENT", "CLIENT"]
    assert "password_hash" not in json.dumps(entries)
    assert "hash" not in ctl("log")
    proxies = [(each["proxy"], each["levels"], each["release"]) for each in ctl.json("proxies")]
    assert proxies == [("a", [1, 2], "test"), ("b", [1, 2], "test")]
    assert ctl("proxies").splitlines()[1].split()[-5:] == ["-"] * 5
    sizes = ctl.json("sizes")
    assert [(each["proxy"], each["entries"]) for each in sizes["log"]] == [("a", 2), ("b", 3)]
    assert (sizes["snapshots"], sizes["since_snapshot"]["entries"]) == ([], 5)
    assert sizes["etcd"]["database_bytes"] > 0
    assert "log since the current snapshot: 5 entries" in ctl("sizes")


def test_a_snapshot_on_request(ctl: Ctl) -> None:
    assert "8 znodes" not in ctl("sizes")
    assert "wrote the snapshot" in ctl("snapshot")
    assert ctl("snapshot") == (
        "no snapshot was written: nothing has been appended to the log since the current one\n"
    )
    sizes = ctl.json("sizes")
    assert [(each["is"], each["nodes"]) for each in sizes["snapshots"]] == [("current", 6)]
    assert sizes["since_snapshot"] == {"entries": 0, "bytes": 0, "seconds": 0}
    assert ctl("ls", "/one").split() == ["e"]
    assert len(ctl.json("proxies")) == 2, "the command's own incarnation is gone"


def test_a_poison_entry_is_made_void(ctl: Ctl) -> None:
    async def poison(tree: Tree) -> None:
        await tree.etcd.txn(Txn((), (Put(tree.keys.entry("a", 3), b"rubbish"),)), 5)
        for name in "ab":
            await tree.etcd.txn(Txn((), (Put(tree.keys.proxy(name), b"?"),)), 5)

    ctl.run(poison)
    assert "zketcd void a 3" in ctl("ls", "/", status=1)
    assert "cannot be read" in ctl("log", "--tail", "1")
    served = ctl("void", "a", "3", status=1)
    assert "the tree is served by a, b. Stop these proxies first" in served
    assert f"The key {ctl.prefix}/live/proxy/a has no lease: no proxy has put it" in served

    async def stop(tree: Tree) -> None:
        for name in "ab":
            tree.revisions[name] = 0
            await tree.go(name)

    ctl.run(stop)
    assert "there is no entry 9 of a" in ctl("void", "a", "9", status=1)
    assert "entry 3 of a is void" in ctl("void", "a", "3")
    assert ctl("ls", "/one").split() == ["e"]
    assert "2 requests will have no effect" in ctl("void", "a", "2")
    assert "there is no node /one" in ctl("ls", "/one", status=1)


def test_an_entry_that_no_start_reads_is_not_made_void(ctl: Ctl) -> None:
    ctl("snapshot")
    assert "holds what entry 2 of a has done: a start does not read" in ctl(
        "void", "a", "2", "--force", status=1
    )


async def test_no_entry_is_made_void_under_a_proxy_that_has_just_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = await Tree().make("a")
    await tree.create("a", "/x")
    await tree.go("a")
    read = tree.etcd.range

    async def then_a_proxy_comes(get: Get, timeout: float) -> RangeResult:
        found = await read(get, timeout)
        await tree.come("b")
        return found

    monkeypatch.setattr(tree.etcd, "range", then_a_proxy_comes)
    with pytest.raises(CommandFailed, match="or a proxy has come, at the same moment"):
        await void(tree.etcd, tree.keys, "a", 2, force=False)


async def test_an_entry_is_void_though_the_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second try found that the entry had changed, and the command failed."""
    tree = await Tree().make("a")
    await tree.create("a", "/x")
    await tree.go("a")
    etcd = tree.etcd
    assert isinstance(etcd, FakeEtcdClient)
    read, fates = etcd.range, etcd.fates

    async def then_an_answer_is_lost(get: Get, timeout: float) -> RangeResult:
        found = await read(get, timeout)
        fates.append(Fate.ANSWER_LOST)
        return found

    monkeypatch.setattr(etcd, "range", then_an_answer_is_lost)
    done = await void(etcd, tree.keys, "a", 2, force=False)
    assert done.lines == ["entry 2 of a is void; 1 request will have no effect"]


def test_levels(ctl: Ctl) -> None:
    assert ctl("raise-level", "1") == "the tree has level 1 already\n"
    assert "applies level 1, not 2" in ctl("raise-level", "2", status=1)


def test_budgets(ctl: Ctl) -> None:
    assert ctl("budget", "list") == "there are no budgets\n"
    assert "is no budget such as" in ctl("budget", "set", "/one=5", status=2)
    assert ctl("budget", "set", "/one=5/s,1MB/s", "/=7kB/s").splitlines() == [
        "the budget of /one is 5/s,1MB/s now",
        "the budget of / is 7kB/s now",
    ]
    assert ctl("budget", "list").splitlines() == [
        "path  writes/s  bytes/s  writes left  bytes left",
        "/     -         7000     -            7000",
        "/one  5         1000000  5            1000000",
    ]
    (request,) = ctl.json("log", "--tail", "1")[0]["requests"]
    assert (request["kind"], request["path"], request["bytes"]) == ("BUDGET", "/", 7000)
    assert "there is no budget of /two" in ctl("budget", "remove", "/two", status=1)
    assert ctl("budget", "remove", "/") == "the budget of / is removed\n"
    assert [each["path"] for each in ctl.json("budget", "list")] == ["/one"]
    assert "is no path of a node" in ctl("budget", "set", "one=5/s", status=2)


def test_what_is_no_tree(ctl: Ctl) -> None:
    ctl.prefix += "/nothing"
    missing = f": there is no tree under {ctl.prefix}: the key {ctl.prefix}/live/tree is missing\n"
    for command in ("ls /", "sessions", "sizes", "log", "proxies", "snapshot", "raise-level 1", "void a 1"):
        name, *arguments = command.split()
        assert ctl(name, *arguments, status=1) == f"zketcd {name}{missing}"


@pytest.mark.parametrize("command", [["ls", "/"], ["proxies"], ["snapshot"]], ids=lambda command: command[0])
def test_an_etcd_that_does_not_answer_within_the_timeout(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is not there, and for one command, one that is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1])[: 2 if command == ["snapshot"] else 1]:
            assert main([*command, "--etcd", f"127.0.0.1:{port}", "--timeout", "1"]) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith(f"zketcd {command[0]}: etcd has not answered for 1 s: ")


def test_an_etcd_that_comes_back_within_the_timeout(
    ctl: Ctl, etcd_server: EtcdServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Link(etcd_server.port) as link:
        link.block()
        threading.Timer(1.0, link.unblock).start()
        arguments = ["--etcd", link.endpoint, "--prefix", ctl.prefix, "--timeout", "60"]
        assert main(["proxies", *arguments]) == 0
    assert capsys.readouterr().out.startswith("proxy ")


@one_by_one(
    ("arguments", "words"),
    [
        (["replay"], "required"),
        (["replay", "ls", "/"], "--to"),
        (["log", "--tail", "0"], "--tail"),
        (["budget", "list", "/a"], "takes no BUDGET"),
        (["budget", "set"], "needs a BUDGET"),
        (["ls", "/", "--data-dir", __file__], "is not a directory"),
        (["ls", "/", "--etcd-key", __file__], "must be given together"),
        (["ls", "/", "--etcd-user", "x"], "must be given together"),
        (
            ["ls", "/", "--etcd-user", "x", "--etcd-password-file", os.devnull],
            "/dev/null: it is not a regular file",
        ),
        (["ls", "/", "--prefix", "x//y"], "prefix"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@one_by_one(
    ("arguments", "expected"),
    [
        ([], "http://127.0.0.1:2379"),
        (["--etcd", "http://e:1"], "http://e:1"),
        (["--etcd", "embedded"], f"unix://{Path.cwd()}/data/sockets/client:0"),
        (["--data-dir", "/there"], "unix:///there/sockets/client:0"),
        (["--etcd", "embedded", "--data-dir", "/there"], "unix:///there/sockets/client:0"),
        (["--etcd", "http://e:1", "--data-dir", "/there"], "http://e:1"),  # as a server's file may have both
    ],
)
def test_the_etcd_that_is_meant(arguments: list[str], expected: str) -> None:
    assert endpoints(parser("ls").parse_args([*arguments, "/"])) == (expected,)


def test_environment_and_file(ctl: Ctl, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKETCD_ETCD", ctl.etcd.endpoint)
    monkeypatch.setenv("ZKETCD_PREFIX", ctl.prefix)
    monkeypatch.setenv("ZKETCD_LISTEN", "127.0.0.1:1")
    assert main(["ls", "/"]) == 0
    file = f"{tmp_path}/zketcd.toml"
    with open(file, "w") as stream:
        stream.write(f'[zketcd]\nprefix = "{ctl.prefix}"\nlisten = "127.0.0.1:2181"\narchive = "/none"\n')
    monkeypatch.delenv("ZKETCD_PREFIX")
    monkeypatch.setenv("ZKETCD_AT", "1h")
    assert main(["ls", "--config", file, "/one"]) == 0


def test_options_outside_their_table_are_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text('prefix = "/elsewhere"\n')
    with pytest.raises(SystemExit) as ended:
        main(["ls", "--config", str(file), "/"])
    assert ended.value.code == 2
    assert f"{file}: options belong into a table [zketcd]: prefix" in capsys.readouterr().err


def test_as_a_process(ctl: Ctl) -> None:
    assert ctl.shell("ls /") == ("one\nzookeeper\n", "", 0)


def test_a_standard_output_that_is_full_closed_early_or_without_unicode(ctl: Ctl) -> None:
    async def name(tree: Tree) -> None:
        await _resumed(tree)
        await tree.create("a", "/größe")

    ctl.run(name)
    full = "zketcd: cannot write to standard output: No space left on device\n"
    assert ctl.shell("ls / > /dev/full") == ("", full, 1)
    assert ctl.shell("ls -R / | true") == ("", "", 0)
    assert ctl.shell("ls /", PYTHONIOENCODING="ascii") == ("gr\\xf6\\xdfe\none\nzookeeper\n", "", 0)
    assert json.loads(ctl.shell("ls --json /", LC_ALL="C")[0]) == ["größe", "one", "zookeeper"]


def test_the_largest_and_the_widest_are_found(ctl: Ctl) -> None:
    found = ctl.json("find-big", "--limit", "2")
    assert found["data"] == [{"path": "/one", "bytes": 4}, {"path": "/one/e", "bytes": 2}]
    assert found["children"][0] == {"path": "/", "children": 2}
    assert found["subtrees"] == [{"path": "/", "nodes": 6}, {"path": "/zookeeper", "nodes": 3}]
    assert [row["path"] for row in ctl.json("find-big", "/one")["subtrees"]] == ["/one", "/one/e"]
    assert ctl("find-big", "/one").splitlines()[:2] == ["bytes  largest data", "4      /one"]
    assert "there is no node" in ctl("find-big", "/none", status=1)


def test_columns_are_aligned() -> None:
    assert table(("a", "bb"), [(100, None), (1, "x")]) == ["a    bb", "100  None", "1    x"]
    assert table(("a", "b"), []) == ["a  b"]


def test_sizes_for_people() -> None:
    assert [size(count) for count in (0, 9999, 10_000, 9_999_999, 123_456_789)] == [
        "0 B",
        "9999 B",
        "10 kB",
        "10000 kB",
        "123 MB",
    ]
    assert (counted(1, "request"), counted(0, "request")) == ("1 request", "0 requests")


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert visible("a\tb\nü") == "a\tb\nü"
    assert Output(None, ["/x\n/y"]).text(False) == "/x\\n/y", "a path that was refused is in the log"
    say("/a\u202e")
    assert capsys.readouterr().err == "/a\\u202e\n"
    assert visible("\x1b]0;title\x07\r\x7f\x9b\u202e") == r"\x1b]0;title\x07\r\x7f\x9b\u202e"


def test_dates() -> None:
    assert date(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"
    assert date(1 << 62) == str(1 << 62)
