"""The starters themselves: a server starts, tells its version, pauses, dies and comes back with its data."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lab.servers import EtcdServer, StartFailed, wait_until
from lab.servers.process import REPOSITORY, closed_logs


def test_a_server_outlives_the_thread_that_has_started_it(own_etcd_server: EtcdServer) -> None:
    """The kernel sends the signal of `setpriv --pdeathsig` when a thread of the parent ends."""
    own_etcd_server.stop()
    thread = threading.Thread(target=own_etcd_server.start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert own_etcd_server.alive


_STARTS_ONE = """
from time import sleep
from lab.servers import UpgradableServer
class Server(UpgradableServer):
    def command(self): return ["sh", "-c", "sleep 600 & sleep 600"]
with_a_child = Server(None)
with_a_child.launch()
print(with_a_child.pid, flush=True)
sleep(600)
"""


def test_nothing_of_an_upgraded_server_stays_if_the_tests_are_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        group = int(tests.stdout.readline())
        wait_until(lambda: len(_group(group)) > 1, "two programs run")
        tests.send_signal(signal.SIGKILL)
    wait_until(lambda: not _group(group), "none of them runs")


def _group(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(stat.parent.name)
    return found


@pytest.mark.real
def test_a_server_that_cannot_start_says_why_with_its_log() -> None:
    server = EtcdServer("--no-such-flag")
    with pytest.raises(StartFailed, match="no-such-flag"), server:
        pass
    assert not server.alive
    assert not server.folder.exists()
    assert "no-such-flag" in closed_logs[-1].tail
