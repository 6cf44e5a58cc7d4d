"""A forked zketcd ends, and says how it ended, as one that was started; none outlives the tests."""

import signal
import subprocess
import sys

import pytest

from lab.servers import EtcdServer, StartFailed, ZketcdServer, wait_until
from lab.servers.forked import ForkedProcess
from lab.servers.process import REPOSITORY, lives

pytestmark = pytest.mark.real


def test_how_it_ended(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix) as server:
        assert isinstance(server._process, ForkedProcess)
        assert server.stop() == 0
        server.start().kill()
        server.launch()
        server._process.send_signal(signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL


def test_a_wrong_option(etcd_server: EtcdServer) -> None:
    with pytest.raises(StartFailed, match=r"status 2.*\n.*--no-such-option"):
        ZketcdServer(etcd_server.endpoint, arguments=["--no-such-option"]).start()


_STARTS_ONE = """
import sys, time
from lab.servers import ZketcdServer
ZketcdServer.forks = True
print(ZketcdServer(sys.argv[1], prefix=sys.argv[2]).start().pid, flush=True)
time.sleep(600)
"""


def test_it_ends_when_the_tests_are_killed(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    arguments = [sys.executable, "-c", _STARTS_ONE, etcd_server.endpoint, etcd_prefix]
    with subprocess.Popen(arguments, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert lives(pid)
        tests.kill()
    wait_until(lambda: not lives(pid), "it has ended")
