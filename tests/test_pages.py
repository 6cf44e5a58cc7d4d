"""Pages of docs/ that operators follow step by step, run as they stand there."""

import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from archive.catalog import Catalog
from archive.store import store_of
from lab.servers import EtcdServer, ZketcdServer, pages, wait_until
from lab.servers.operator import ctl
from lab.servers.prepared import NEXT_LEVEL, prepared
from lab.servers.process import REPOSITORY, find_program
from tests.kazoo import kazoo

DOCS = REPOSITORY / "docs"

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
        ("    $ sudo systemctl stop etcd\n", "stop etcd"),
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


def _wait_for_proxies(etcd: EtcdServer, number: int, prefix: str = "/zketcd") -> None:
    """One that was killed, since its stop took too long, counts until its lease ends."""
    wait_until(lambda: len(ctl(etcd, "proxies", prefix=prefix)) == number, f"{number} proxies", 60)


@pytest.mark.real
def test_back_up_and_restore(tmp_path: Path) -> None:
    with (
        EtcdServer() as etcd,
        ZketcdServer(etcd.endpoint, prefix="/zketcd") as zketcd,
        ExitStack() as stack,
    ):
        running = {"etcd": etcd, "zketcd": zketcd}

        def systemctl(words: list[str]) -> None:
            action, service = words
            getattr(running[service], action)()
            if words == ["stop", "zketcd"]:
                # A proxy that is killed, since its stop took too long, counts for a while.
                wait_until(lambda: not ctl(etcd, "proxies"), "no proxy to be left", 60)

        client = stack.enter_context(kazoo(zketcd))
        client.create("/app", b"")
        client.create("/app/config", b"color=blue\n")
        for number in range(19):
            client.create(f"/app/{number}", b"x" * 100)
        client.create("/app/worker", b"", ephemeral=True)
        peer = f"127.0.0.1:{etcd.peer_port}"
        members = ",".join(f"etcd-{number}=http://etcd-{number}:2380" for number in (1, 2, 3))
        real = {
            members: f"test=http://{peer}",
            "--name etcd-1": "--name test",
            "etcd-1:2380": peer,
            "etcd-1:2379": etcd.address,
            "/var/backups": str(tmp_path / "backups"),
            "/var/lib/etcd": str(etcd.data_dir),
        }
        (tmp_path / "backups").mkdir()
        done = pages.run(DOCS / "backup.md", real, {"systemctl": systemctl}, _path(tmp_path / "bin"))
        assert len(done) > 10
        stack.close()
        with kazoo(zketcd) as again:
            assert again.get("/app/config")[0] == b"color=blue\n"
            assert len(again.get_children("/app")) == 20


@pytest.mark.real
def test_upgrade_and_go_back(tmp_path: Path, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with (
        prepared("", etcd_server, prefix=etcd_prefix) as first,
        prepared("", etcd_server, prefix=etcd_prefix) as second,
        kazoo(first, second, timeout=10) as client,
    ):
        hosts = iter((first, second, second, second))  # in the order of the page
        client.create("/lives-on", b"", ephemeral=True)

        def install(words: list[str]) -> None:
            host = next(hosts)
            host.stop()
            _wait_for_proxies(etcd_server, 1, etcd_prefix)
            host.prelude = "" if "_0.1.0-" in words[-1] else NEXT_LEVEL
            host.start()

        real = {"--etcd http://etcd-1:2379": f"--etcd {etcd_server.endpoint} --prefix {etcd_prefix}"}
        pages.run(DOCS / "upgrading.md", real, {"apt-get": install}, _path(tmp_path / "bin", NEXT_LEVEL))
        assert client.exists("/lives-on")


@pytest.mark.real
def test_budgets(tmp_path: Path, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix) as zketcd, kazoo(zketcd) as client:
        client.create("/app")
        real = {"--etcd http://etcd-1:2379": f"--etcd {etcd_server.endpoint} --prefix {etcd_prefix}"}
        assert len(pages.run(DOCS / "budgets.md", real, ACTIONS, _path(tmp_path / "bin"))) == 5


@pytest.mark.real
def test_somebody_deleted_clickhouse(tmp_path: Path) -> None:
    page = DOCS / "archive.md"
    with EtcdServer() as etcd, ZketcdServer(etcd.endpoint, prefix="/zketcd") as zketcd:
        real = {
            "/usr/bin/zketcd": "zketcd",
            "etcd-1:2379": etcd.address,
            "/var/backups/zketcd": str(tmp_path),
            "/var/lib/node_exporter": str(tmp_path),
            "10.0.0.7": "127.0.0.1",
            "zk-1:2181": zketcd.address,
        }
        path = _path(tmp_path / "bin")
        command = page.read_text().partition("ExecStart=")[2].partition("\n")[0]
        for named, used in real.items():
            command = command.replace(named, used)
        archiver = subprocess.Popen(shlex.split(command), env={"PATH": path})
        try:
            with kazoo(zketcd) as client:
                client.create("/clickhouse/tables/hits", b"columns: 17", makepath=True)
                real["0x4cc"] = f"{client.last_zxid:#x}"
                client.delete("/clickhouse", recursive=True)
                deleted = client.last_zxid
            store = store_of(str(tmp_path / "archive"))

            def archived() -> bool:
                runs = Catalog(store.list()).runs
                return bool(runs) and runs[0].end.zxid > deleted

            wait_until(archived, "everything to be archived", 60)
            assert len(pages.run(page, real, ACTIONS, path)) == 10
        finally:
            archiver.kill()
            archiver.wait()
