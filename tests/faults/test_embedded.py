"""The embedded etcd and the proxy that started it: neither outlives the other unnoticed."""

import os
import signal
from pathlib import Path

import pytest

from lab.client.blocking import EPHEMERAL, Client
from lab.servers import ZketcdServer, wait_until
from lab.servers.process import lives
from tests.faults.conftest import Start
from zketcd.__main__ import main

pytestmark = pytest.mark.real


def etcd_of(proxy: ZketcdServer) -> int:
    """The process id of a proxy's embedded etcd."""
    (child,) = Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()
    return int(child)


@pytest.mark.parametrize("killed", ["etcd", "proxy"])
def test_neither_outlives_the_other_and_both_start_again_with_all_data(start: Start, killed: str) -> None:
    proxy = start(None)
    with Client(proxy.port) as client:
        client.create("/a", b"data")
        client.create("/ephemeral", b"", EPHEMERAL)
        etcd = etcd_of(proxy)
        if killed == "etcd":
            os.kill(etcd, signal.SIGKILL)
            assert proxy.wait() == 1
            assert "the embedded etcd ended" in proxy.log_text()
        else:
            proxy.kill()
            wait_until(lambda: not lives(etcd), "the end of etcd")
        proxy.start()
        client.reconnect(proxy.port)
        assert client.read("/a")[0] == b"data"
        assert client.stat("/ephemeral") is not None
        client.close()


def test_tools_find_it_by_its_data_directory(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = start(None)
    with Client(proxy.port) as client:
        client.create("/a", b"data")
    there = ["--data-dir", str(proxy.data_dir)]
    assert f"etcd of --data-dir {proxy.data_dir}, " in proxy.log_text()

    def run(*command: str) -> str:
        assert main(command) == 0
        return capsys.readouterr().out

    assert run("get", "/a", *there).startswith("data\n")
    assert "backed up" in run("backup", str(tmp_path / "backups"), *there)
    run("export", str(tmp_path / "exported"), *there)
    run("verify", "--no-spark", str(tmp_path / "exported"), "etcd://embedded/zketcd", *there)


def test_a_signal_ends_both_in_order(start: Start) -> None:
    proxy = start(None)
    with Client(proxy.port) as client:
        client.create("/a", b"data")
        etcd = etcd_of(proxy)
        assert proxy.stop() == 0
        assert not Path(f"/proc/{etcd}").exists()
        proxy.start()
        client.reconnect(proxy.port)
        assert client.read("/a")[0] == b"data"
