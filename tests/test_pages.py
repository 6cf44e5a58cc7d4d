"""Pages of docs/ that operators follow step by step, run as they stand there."""

import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness import EtcdServer, ZketcdServer, pages
from tests.harness.process import REPOSITORY, find_program

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


def _services(action: str, service: str) -> None:
    raise AssertionError(f"{action} {service}")


def test_a_page_is_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = pages.run(page, {"apples": "pears"}, _services, "/usr/bin:/bin")
    assert done == [
        ("echo 17 apples", ["17 apples"]),
        (r"printf 'a\nb\nc\n'", ["a", "b", "c"]),
        ("true", []),
    ]


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
        pages.run(page, {}, _services, "/usr/bin:/bin")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with `zketcd` and etcdctl."""
    folder = tmp_path / "bin"
    folder.mkdir()
    zketcd = folder / "zketcd"
    zketcd.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m zketcd "$@"\n')
    zketcd.chmod(0o755)
    etcdctl = Path(find_program("etcdctl", "make test installs it where it may use apt"))
    return f"{folder}:{etcdctl.parent}:/usr/bin:/bin"


@pytest.mark.real
def test_back_up_and_restore(tmp_path: Path, path: str) -> None:
    with EtcdServer() as etcd, ZketcdServer(etcd.endpoint, prefix="/zketcd") as zketcd:
        running = {"etcd": etcd, "zketcd": zketcd}

        def services(action: str, service: str) -> None:
            getattr(running[service], action)()

        client = KazooClient(zketcd.address)
        client.start(timeout=60)
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
        done = pages.run(DOCS / "backup.md", real, services, path)
        assert len(done) > 10
        client.stop()
        client.close()
        again = KazooClient(zketcd.address)
        again.start(timeout=60)
        assert again.get("/app/config")[0] == b"color=blue\n"
        assert len(again.get_children("/app")) == 20
        again.stop()
        again.close()
