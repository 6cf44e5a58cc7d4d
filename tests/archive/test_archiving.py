"""`serve --archive`: one of the proxies archives, another one when it dies; the child ends with its proxy."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.ports import free_port
from lab.servers.process import children_of, lives
from proxy.config import parse as parse_config
from tests.archive.archives import ROOT, seen_by, state, until_archived
from tests.table import one_by_one
from zketcd.__main__ import main

_SESSION_MS = 300_000  # no client has to ping while a busy machine takes its time
_COMPLETE = "zketcd_archive_complete_timestamp_seconds"


class _Proxy(ZketcdServer):
    def __init__(self, etcd: str, prefix: str, url: Path) -> None:
        self.admin = free_port()
        super().__init__(
            etcd,
            prefix=prefix,
            archive=url,
            archive_keep="30d",
            admin_listen=f"127.0.0.1:{self.admin}",
            proxy_lease=5,
            tick_time=500,
            max_session_timeout=_SESSION_MS,
        )

    def complete(self) -> float:
        """Up to when its archiver says that all is archived; 0 while another proxy archives."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return max((float(line.split()[1]) for line in lines if line.startswith(_COMPLETE)), default=0.0)


def test_another_proxy_archives_when_one_dies(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    url = tmp_path / "archive"
    with (
        _Proxy(etcd_server.endpoint, etcd_prefix, url) as first,
        _Proxy(etcd_server.endpoint, etcd_prefix, url) as second,
        Client(second.port, _SESSION_MS) as client,
    ):
        client.create(ROOT, b"1")
        until_archived(url, client.zxid)
        wait_until(first.complete, "the eldest proxy archives", 60)
        assert second.complete() == 0
        (child,) = children_of(first.pid)
        first.kill()
        wait_until(lambda: not lives(child), "the archiver ends with its proxy")
        client.write(ROOT, b"2")
        wait_until(second.complete, "the other proxy archives", 60)
        client.create(f"{ROOT}/n", b"3")
        seen = seen_by(client)
        until_archived(url, seen.zxid)
        assert state(str(url), f"0x{seen.zxid:x}") == seen.nodes

        # An archiver that dies is replaced, and a new process that takes over archives.
        (child,) = children_of(second.pid)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: any(each != child for each in children_of(second.pid)), "another archiver")
        upgrade = [sys.executable, "-m", "zketcd", "upgrade", str(second.pid)]
        done = subprocess.run(upgrade, capture_output=True, text=True, timeout=60, check=True)
        heir = int(done.stdout.split()[1])
        try:
            wait_until(second.complete, "the new process archives", 60)
            client.write(ROOT, b"4")
            until_archived(url, client.zxid)
            (child,) = children_of(heir)
        finally:
            os.kill(heir, signal.SIGTERM)
        wait_until(lambda: not lives(child) and not lives(heir), "the archiver ends with its proxy")


@one_by_one(
    ("arguments", "error"),
    [
        (["--archive", "lsit"], "'lsit' is no archive: give a directory with a slash, such as ./lsit or"),
        (["--archive-keep", "30d"], "--archive-keep needs --archive"),
        (["--archive", "./a", "--archive-keep", "soon"], "'soon' is no duration such as"),
        (["--at", "10m"], "--at needs --archive and --read-only"),
        (["--read-only"], "--read-only needs --archive"),
        (["--read-only=some", "--archive", "./a"], "invalid choice: 'some'"),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_config(arguments)
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


def test_wrong_access_to_etcd_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, at which systemd does not try again."""
    with pytest.raises(SystemExit) as ended:
        main(["archive", str(tmp_path), "--etcd", "http://127.0.0.1:1", "--etcd-user", "me"])
    assert ended.value.code == 2
    assert "--etcd-user and --etcd-password or --etcd-password-file must be given" in capsys.readouterr().err
