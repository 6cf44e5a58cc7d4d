"""Pages of docs/ that operators follow step by step, run as they stand there."""

import base64
import hashlib
import inspect
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TextIO

import pytest

from archive.files.catalog import Catalog
from archive.files.store import store_of
from codec import client as zk
from codec.jute import Acl
from codec.longs import hex64
from lab.client.blocking import EPHEMERAL, OK, SYSTEM_ERROR, Client
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, free_port, pages, wait_until
from lab.servers.process import REPOSITORY, find_program
from lab.servers.secured import SecuredEtcd
from lab.servers.with_prelude import NEXT_LEVEL, with_prelude
from tests.kazoo import kazoo

DOCS = REPOSITORY / "docs"

SUPER = "super:" + base64.b64encode(hashlib.sha1(b"super:PASSWORD").digest()).decode()

PAGE = """
Some words, and `$ not a command`.

    $ echo 17 apples
    16 apples
    $ printf 'a\\nb\\nc\\n'
    a
    ...

    $ true
"""


def _refuse(words: list[str]) -> None:
    raise AssertionError(" ".join(words))


ACTIONS = {"systemctl": _refuse}


def test_a_page_is_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = pages.run(page, {"apples": "pears"}, ACTIONS, "/usr/bin:/bin")
    assert done == [("echo 17 apples", ["17 apples"]), (r"printf 'a\nb\nc\n'", ["a", "b", "c"]), ("true", [])]


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ("    $ echo a\n    b\n", "the page shows"),
        ("    $ echo a\n", "the page shows"),
        ("    $ false\n", "ended with 1"),
        ("    $ printf 'a\\nb\\n'\n    ...\n    c\n", "the page shows"),
        ("    $ systemctl stop etcd\n", "stop etcd"),
    ],
)
def test_a_page_that_is_wrong(block: str, wrong: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(AssertionError, match=wrong):
        pages.run(page, {}, ACTIONS, "/usr/bin:/bin")


def _path(folder: Path, prelude: str = "") -> str:
    """A PATH with `zketcd`, before which `prelude` runs, and etcdctl."""
    folder.mkdir()
    program = folder / "zketcd.py"
    program.write_text(f"{prelude}\nimport runpy\nrunpy.run_module('zketcd', None, '__main__', True)\n")
    zketcd = folder / "zketcd"
    zketcd.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -P {program} "$@"\n')
    zketcd.chmod(0o755)
    etcdctl = Path(find_program("etcdctl", "make test installs it where it may use apt"))
    return f"{folder}:{etcdctl.parent}:/usr/bin:/bin"


def _wait_for_proxies(host: "Host", number: int) -> None:
    """One that was killed, since its stop took too long, counts until its lease ends."""

    def counted() -> bool:
        found = of(host, "etcdctl", "get", "--prefix", "--keys-only", "/zketcd/live/proxy/")
        return len(found.split()) == number

    wait_until(counted, f"{number} proxies", 60, interval=0.2)


# The pages for operators, and the test that runs the commands of each. A page is run as a whole.
RUN = {
    "archive": "test_somebody_deleted_clickhouse",
    "backup": "test_back_up_and_restore",
    "budgets": "test_budgets",
    "clickhouse": "test_a_clickhouse_server_is_gone",
    "etcd": "test_etcd_with_users_and_tls",
    "migration": "test_move_here_and_back",
    "monitoring": "test_a_proxy_that_is_not_ready",
    "operating": "test_operate",
    "region": "test_a_region_is_gone",
    "troubleshooting": "test_symptoms",
    "upgrading": "test_upgrade_and_go_back",
}
# Pages whose commands no test runs from the page, and why.
NOT_RUN = {
    "connections": "keytool, ClickHouse and HAProxy: tests/clients has the same with their configurations",
    "console": "a picture of the console is the result",
    "install": "apt and systemd: tools/try_package.sh runs the same on a host of its own",
    "kubernetes": "needs a cluster: tests/deploy checks the manifests and the chart",
}


def test_every_page_with_commands_is_run_or_says_why_not() -> None:
    with_commands = {page.stem for page in DOCS.glob("*.md") if list(pages.commands(page.read_text()))}
    assert with_commands == RUN.keys() | NOT_RUN.keys()
    assert not RUN.keys() & NOT_RUN.keys()
    for name, test in RUN.items():
        source = inspect.getsource(globals()[test])
        assert f'"{name}.md"' in source, f"{test} does not run docs/{name}.md"


# Commands on the pages that are run which stand there without `$ `, so that they are not run, and why.
NOT_RUN_LINES = {
    "etcd": {
        "zketcd serve": "a command line of a proxy that ends with `...`",
        "zketcd ls": "of an embedded etcd: tests/faults/test_embedded.py",
        "zketcd export": "the same",
        "zketcd verify": "the same",
        "etcdctl --endpoints": "the same",
    },
    "monitoring": {
        "export OTEL_EXPORTER_OTLP_ENDPOINT": "traces: tests/proxy/traces",
        "export OTEL_TRACES_SAMPLER": "the same",
    },
}
_PROGRAMS = r"zketcd |etcdctl |curl |echo |sudo |chown |systemctl |export |apt-get |docker |kubectl |\w+=\$\("


def test_a_command_that_is_not_run_says_why() -> None:
    for name in RUN:
        page = (DOCS / f"{name}.md").read_text()
        found = re.findall(rf"^ {{4,}}((?:{_PROGRAMS})[^\s=]+)", page, re.MULTILINE)
        assert sorted(set(found)) == sorted(NOT_RUN_LINES.get(name, {})), name


class Host:
    """The host of an operator who has followed docs/etcd.md: an etcd with TLS and users, and a proxy."""

    def __init__(self, folder: Path, etcd: SecuredEtcd) -> None:
        self.etcd = etcd
        self.path = _path(folder / "bin")
        self.environment: dict[str, str] = {}
        self.admin = f"127.0.0.1:{free_port()}"
        self.config = etcd.root / "etc" / "zketcd" / "zketcd.toml"
        self.real = {
            **etcd.on_page(),
            "localhost:8080": self.admin,
            "db-1:8080": self.admin,
            "db-1": socket.gethostname(),
            "new-password": str(folder / "new-password"),
        }
        self.zketcd = ZketcdServer(
            None, config=self.config, admin_listen=self.admin, super_digest=SUPER, max_session_timeout=600_000
        )

    def run(
        self, text: Path | str, actions: Mapping[str, pages.Action] = ACTIONS
    ) -> list[tuple[str, list[str]]]:
        """Run the commands of a page, with what former ones have exported."""
        return pages.run(text, self.real, actions, self.path, self.environment)

    def make_users(self) -> None:
        """As the page says: users, then the configuration and the proxy, then authentication."""
        page = pages.section((DOCS / "etcd.md").read_text(), "Users and TLS")
        before, configuration, after = re.split(r"    # cat .*\n((?:    .*\n)+)", page)
        self.run(before)
        text = "".join(line.removeprefix("    ") for line in configuration.splitlines(keepends=True))
        for named, used in self.real.items():
            text = text.replace(named, used)
        self.config.write_text(text)
        self.zketcd.start()
        self.run(after)


@contextmanager
def _host(folder: Path, *arguments: str) -> Iterator[Host]:
    """`arguments` go to etcd."""
    with SecuredEtcd(folder / "root", *arguments) as etcd:
        host = Host(folder, etcd)
        with ExitStack() as stack:
            stack.callback(host.zketcd.close)
            host.make_users()
            yield host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with _host(tmp_path) as made:
        yield made


@pytest.mark.real
def test_symptoms(host: Host) -> None:
    with Client(host.zketcd.port, 4000) as silent:
        silent.create("/app")
        host.real["0x180d7279aca5cdd7"] = hex64(silent.id)
        silent.drop()
    wait_until(lambda: "expired: its client was silent" in host.zketcd.log_text(), "the session to end", 60)
    host.run(DOCS / "troubleshooting.md")


@pytest.mark.real
def test_etcd_with_users_and_tls(host: Host) -> None:
    """The fixture runs the section about users, another test that about a full etcd; here is the rest."""
    page = (DOCS / "etcd.md").read_text()
    with Client(host.zketcd.port) as client:
        for number in range(12):
            client.create(f"/{number}")
    of(host, "zketcd", "snapshot")
    Path(host.real["new-password"]).write_text("another")

    def install(words: list[str]) -> None:
        source, target = (host.real.get(word, word) for word in words[-2:])
        shutil.copy(source, target.replace("/etc/zketcd/", host.real["/etc/zketcd/"]))

    for title in ("Users and TLS", "When etcd is full"):
        page = page.replace(pages.section(page, title), "")
    host.run(page, {"install": install})
    wait_until(
        lambda: "etcd accepts the password of user zketcd" in host.zketcd.log_text(), "the new password", 60
    )
    with Client(host.zketcd.port) as client:
        client.create("/again")


def of(host: Host, *command: str, given: TextIO | None = None) -> str:
    """What a command prints on this host. Raises CalledProcessError."""
    done = subprocess.run(
        command,
        env={"PATH": host.path, "ETCDCTL_API": "3", **host.environment},
        stdin=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@pytest.mark.real
def test_a_proxy_that_is_not_ready(host: Host) -> None:
    page = (DOCS / "monitoring.md").read_text()
    alerts = pages.section(page, "Alerts")
    host.run(page.replace(alerts, ""))
    host.etcd.pause()
    try:
        wait_until(lambda: not _is_ready(host), "the proxy to notice", 60)
        host.run(alerts)
    finally:
        host.etcd.resume()


def _is_ready(host: Host) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host.admin}/ready", timeout=10):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False


@pytest.mark.real
def test_operate(host: Host) -> None:
    with Client(host.zketcd.port) as keeper, Client(host.zketcd.port, 600_000) as worker:
        keeper.create("/app")
        keeper.create("/app/config", b"color=blue")
        keeper.create("/app/workers")
        for number in range(1, 13):
            worker.create(f"/app/workers/{number}", mode=EPHEMERAL)
        keeper.call(zk.set_acl("/app", [Acl(1, "world", "anyone")]))
        host.real |= {
            "0x180d7279aca5cdd7": hex64(worker.id),
            "10.0.0.0/24": "127.0.0.0/8",
            "10.0.0.7": "127.0.0.1",
            "zketcd-1:2181": host.zketcd.address,
        }
        # The other client has no ephemerals, and would be a second line.
        keeper.close()
        host.real |= {
            f"zketcd {command}": f"zketcd {command} --server {host.zketcd.address}"
            for command in ("acl", "shell")
        }
        assert len(host.run(DOCS / "operating.md")) == 8


@pytest.mark.real
def test_a_full_etcd(tmp_path: Path) -> None:
    """Another program has filled it. A client writes all the time, as on every cluster in trouble."""
    with _host(tmp_path, "--quota-backend-bytes=8388608") as host, Client(host.zketcd.port, 60_000) as client:
        client.create("/app", bytes(1000))
        value = tmp_path / "value"
        value.write_text("a" * 1_000_000)
        while "NOSPACE" not in of(host, "etcdctl", "alarm", "list"):
            with value.open() as given, suppress(subprocess.CalledProcessError):
                of(host, "etcdctl", "put", "/another", given=given)
        assert client.refusal(zk.set_data("/app", b"refused")) == SYSTEM_ERROR
        page = pages.section((DOCS / "etcd.md").read_text(), "When etcd is full")
        with _writing(client):
            assert len(host.run(page)) == 7
        # A session makes the tree grow, as this does.
        taken = bytes(2000)
        wait_until(lambda: client.refusal(zk.set_data("/app", taken)) == OK, "writes to be taken", 60)
        with Client(host.zketcd.port) as new:
            assert new.read("/app")[0] == taken


@contextmanager
def _writing(client: Client) -> Iterator[None]:
    """A client that sends a write each 50 ms, whether it is refused or not."""
    end = Event()

    def write() -> None:
        while not end.wait(0.05):
            client.refusal(zk.set_data("/app", b"another"))

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write)
        try:
            yield
        finally:
            end.set()
        writing.result()


@pytest.mark.real
def test_back_up_and_restore(host: Host, tmp_path: Path) -> None:
    running = {"etcd": host.etcd, "zketcd": host.zketcd}
    stopped: list[str] = []

    def systemctl(words: list[str]) -> None:
        action, service = words
        stopped.extend([service] * (action == "stop"))
        if stopped == ["zketcd", "zketcd"] and action == "stop":
            with kazoo(host.zketcd) as client:  # after the backup of etcd
                client.create("/app/late", b"")
        getattr(running[service], action)()
        if words == ["stop", "zketcd"]:
            # A proxy that is killed, since its stop took too long, counts for a while.
            _wait_for_proxies(host, 0)

    with kazoo(host.zketcd) as client:
        client.create("/app", b"")
        client.create("/app/config", b"color=blue\n")
        for number in range(19):
            client.create(f"/app/{number}", b"x" * 100)
        client.create("/app/worker", b"", ephemeral=True)
        peer = f"127.0.0.1:{host.etcd.peer_port}"
        members = ",".join(f"etcd-{number}=http://etcd-{number}:2380" for number in (1, 2, 3))
        host.real |= {
            members: f"test=http://{peer}",
            "--name etcd-1": "--name test",
            "etcd-1:2380": peer,
            "/var/backups": str(tmp_path / "backups"),
            "/var/lib/etcd": str(host.etcd.data_dir),
        }
        (tmp_path / "backups").mkdir()
        host.run(DOCS / "backup.md", {"systemctl": systemctl, "chown": lambda words: None})
    with kazoo(host.zketcd) as again:
        assert again.get("/app/config")[0] == b"color=blue\n"
        assert not again.exists("/app/late")


@pytest.mark.real
def test_upgrade_and_go_back(host: Host, tmp_path: Path) -> None:
    host.zketcd.stop()
    _wait_for_proxies(host, 0)
    endpoint, options = host.etcd.endpoint, host.etcd.options()
    with (
        with_prelude("", endpoint, **options) as first,
        with_prelude("", endpoint, **options) as second,
        kazoo(first, second, timeout=10) as client,
    ):
        hosts = iter((first, second, second, second))  # in the order of the page
        client.create("/lives-on", b"", ephemeral=True)

        def install(words: list[str]) -> None:
            upgraded = next(hosts)
            upgraded.stop()
            _wait_for_proxies(host, 1)
            upgraded.prelude = "" if "_0.1.0-" in words[-1] else NEXT_LEVEL
            upgraded.start()

        host.path = _path(tmp_path / "next", NEXT_LEVEL)
        host.run(DOCS / "upgrading.md", {"apt-get": install})
        assert client.exists("/lives-on")


@pytest.mark.real
def test_budgets(host: Host) -> None:
    with kazoo(host.zketcd) as client:
        client.create("/app")
        assert len(host.run(DOCS / "budgets.md")) == 3


@pytest.mark.real
def test_a_clickhouse_server_is_gone(tmp_path: Path, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    """tests/clients/test_clickhouse_left.py has the same with servers of ClickHouse."""
    admin = f"127.0.0.1:{free_port()}"
    table = "/clickhouse/tables/1/hits"
    config = tmp_path / "zketcd.toml"
    config.write_text(f'[zketcd]\netcd = "{etcd_server.endpoint}"\nprefix = "{etcd_prefix}"\n')
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, admin_listen=admin) as zketcd,
        kazoo(zketcd) as client,
    ):
        client.ensure_path("/clickhouse/tables/1")
        made = client.transaction()  # as ClickHouse makes a table
        for name in ("", "/blocks", "/columns", "/log", "/metadata", "/replicas"):
            made.create(table + name)
        made.commit()
        for name, parts in (("r1", ("all_0_1_1",)), ("r3", ("all_0_0_0", "all_2_2_0"))):
            replica = f"{table}/replicas/{name}"
            for path in ("host", "is_lost", "columns", "queue"):
                client.create(f"{replica}/{path}", makepath=True)
            for part in parts:
                client.create(f"{replica}/parts/{part}", makepath=True)
        client.create(f"{table}/replicas/r1/is_active", ephemeral=True)
        real = {
            "zketcd clickhouse": "zketcd clickhouse --hours 0",
            "/etc/zketcd/zketcd.toml": str(config),
            "zketcd-1:2181": zketcd.address,
            "localhost:8080": admin,
        }
        assert len(pages.run(DOCS / "clickhouse.md", real, ACTIONS, _path(tmp_path / "bin"))) == 4


@pytest.mark.real
def test_somebody_deleted_clickhouse(host: Host, tmp_path: Path) -> None:
    page = DOCS / "archive.md"
    host.real |= {
        "/var/backups/zketcd": str(tmp_path),
        "/var/lib/node_exporter": str(tmp_path),
        "10.0.0.7": "127.0.0.1",
        "zk-1:2181": host.zketcd.address,
    }
    command = page.read_text().partition("ExecStart=/usr/bin/")[2].partition("\n")[0]
    for named, used in host.real.items():
        command = command.replace(named, used)
    archiver = subprocess.Popen(shlex.split(command), env={"PATH": host.path})
    try:
        with kazoo(host.zketcd) as client:
            client.create("/clickhouse/tables/hits", b"columns: 17", makepath=True)
            host.real |= {"0x4cc": f"{client.last_zxid:#x}", "0x5f3a001": hex64(client.client_id[0])}
            client.delete("/clickhouse", recursive=True)
            deleted = client.last_zxid
        store = store_of(str(tmp_path / "archive"))

        def archived() -> bool:
            runs = Catalog(store.list()).runs
            return bool(runs) and runs[0].end.zxid > deleted

        wait_until(archived, "everything to be archived", 60)
        assert len(host.run(page)) == 12
    finally:
        archiver.kill()
        archiver.wait()


@pytest.mark.real
def test_move_here_and_back(host: Host, tmp_path: Path) -> None:
    """Each way of the page in turn, with a ZooKeeper that has stopped, or runs, as the way wants it."""
    page = (DOCS / "migration.md").read_text()
    host.zketcd.stop()
    with ZooKeeperServer() as zookeeper:
        host.real |= {
            "/var/lib/zookeeper-": f"{tmp_path}/zookeeper-",
            "/var/lib/zookeeper": str(zookeeper.data_dir),
        }
        with kazoo(zookeeper) as client:
            client.create("/app/config", b"color=blue", makepath=True)
            client.create("/app/queue/n-", b"", sequence=True, makepath=True)
            host.real["0x500001a2f"] = f"{client.last_zxid:#x}"
            way, follow = "Follow: a move with a pause of seconds", page.partition("```sh\nzketcd follow")[2]
            _empty(host)
            with _started(host, "zketcd follow" + follow.partition("\n")[0], tmp_path / "follow") as end:
                host.run(pages.section(page, way))
                assert end() == 0  # it was asked to finish
        _wait_for_proxies(host, 0)
        host.zketcd.start()
        with kazoo(host.zketcd) as client:
            assert client.get("/app/config")[0] == b"color=blue"
            assert client.create("/app/queue/n-", b"", sequence=True) == "/app/queue/n-0000000001"
        host.zketcd.stop()
        _wait_for_proxies(host, 0)
        host.run(pages.section(page, "The way back: export --follow"))
        zookeeper.stop()
        _empty(host)
        for title in ("Import", "Export"):
            host.run(pages.section(page, title))
        host.zketcd.start()
        with kazoo(host.zketcd) as client:
            assert client.get("/app/config")[0] == b"color=blue"


def _empty(host: Host) -> None:
    """Delete the tree."""
    _wait_for_proxies(host, 0)
    of(host, "etcdctl", "del", "--prefix", "/zketcd/")


@contextmanager
def _started(host: Host, command: str, log: Path, says: str = "level at zxid") -> Iterator[Callable[[], int]]:
    """A command of a page that runs until it is asked to end, and what waits for that."""
    for named, used in host.real.items():
        command = command.replace(named, used)
    with log.open("w") as output:
        running = subprocess.Popen(
            shlex.split(command), env={"PATH": host.path, **host.environment}, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: says in log.read_text(), f"the command to say {says!r}", 60)
        yield lambda: running.wait(60)
    finally:
        running.kill()
        running.wait()


@pytest.mark.real
def test_a_region_is_gone(tmp_path: Path) -> None:
    """A move on purpose, the way back, and the night in which the north is lost."""
    page = (DOCS / "region.md").read_text()
    for side in ("north", "south"):
        (tmp_path / side).mkdir()
    with _host(tmp_path / "north") as north, _host(tmp_path / "south") as south:
        for here, name, there in ((south, "north", north), (north, "south", south)):
            shutil.copy(there.config, here.config.with_name(f"{name}.toml"))
        south.zketcd.stop()
        with kazoo(north.zketcd, south.zketcd, timeout=30) as client:
            client.create("/app", b"color=blue")
            client.create("/app/worker", b"", ephemeral=True)
            _stand_by(south, page)
            follow = page.partition("`zketcd follow")[2].partition(" --metrics")[0]
            with _started(south, "zketcd follow" + follow, tmp_path / "follow") as end:
                south.run(pages.section(page, "See that it works"))
                south.run(pages.section(page, "Move on purpose"))
                assert end() == 0  # it was asked to finish
            south.zketcd.start()
            assert client.exists("/app/worker").ephemeralOwner == client.client_id[0]
            client.set("/app", b"color=red")
            north.zketcd.wait()
            north.run(pages.section(page, "Go back"))
            south.zketcd.wait()
            north.zketcd.start()
            assert client.get("/app")[0] == b"color=red"
            assert client.exists("/app/worker")
            _stand_by(south, page)
            client.create("/app/late", b"")
        _lose(north, south, page, tmp_path / "lost")
        with kazoo(south.zketcd) as client:
            assert client.get_children("/app") == []


def _stand_by(south: Host, page: str) -> None:
    _empty(south)
    south.run(pages.section(page, "What to set up today"))


def _lose(north: Host, south: Host, page: str, log: Path) -> None:
    """The north's etcd does not answer while the south is promoted, and then again."""
    with ExitStack() as stack:
        running = []

        def run(words: list[str]) -> None:
            command = shlex.join(words[words.index("zketcd") :])
            running.append(stack.enter_context(_started(south, command, log, "is not sealed yet")))

        north.etcd.pause()
        try:
            south.run(pages.section(page, "That night"), {"systemd-run": run})
            south.zketcd.start()
        finally:
            north.etcd.resume()
        (end,) = running
        assert end() == 0
    (((_, lost),)) = south.run(pages.section(page, "What is lost"))
    assert [json.loads(line)["path"] for line in lost] == ["/app/late", "/app/worker"]
