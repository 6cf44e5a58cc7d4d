"""kazoo's own test suite: every test of it passes, but for the exceptions below.

Strict both ways: a test that passes has no place among the exceptions.
"""

import os
import re
import socketserver
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.servers import BinaryMissing, EtcdServer, Kdc, ZketcdServer, ZooKeeperServer
from lab.servers.four_letter import four_letter_word
from lab.servers.process import REPOSITORY, ServerProcess
from lab.servers.tls import Authority
from tests.clients.conftest import ON_ZOOKEEPER

_RECONFIG = "members are etcd's business; a standalone ZooKeeper refuses reconfig as well"

EXCEPTIONS = {
    "kazoo.tests.test_client.TestReconfig.test_no_super_auth": _RECONFIG,
    "kazoo.tests.test_client.TestReconfig.test_bad_input": _RECONFIG,
    "kazoo.tests.test_client.TestReconfig.test_add_remove_observer": _RECONFIG,
}
# Tests that a server may fail in one way, with what pytest says then.
RACES = {
    # It waits for three threads, 0.2 s each, and looks then at what they have got. On a busy machine one has
    # no answer yet.
    "kazoo.tests.test_queue.KazooLockingQueueTests.test_concurrent_execution": "result.count(None) == 2",
    # The client sends 1 MB, and drops its connection in the next turn of its loop. On a busy machine it
    # comes so late that the server has answered.
    "kazoo.tests.test_connection.TestConnectionDrop.test_connection_dropped": "DID NOT RAISE ConnectionLoss",
    # `start` waits for CONNECTED, and looks at the state then. On a busy machine it looks so late that the
    # server has refused the authentication, and says that no connection came about.
    "kazoo.tests.test_sasl.TestLegacySASLDigestAuthentication.test_invalid_sasl_auth": "Connection time-out",
    "kazoo.tests.test_sasl.TestSASLDigestAuthentication.test_invalid_sasl_auth": "Connection time-out",
    "kazoo.tests.test_sasl.TestSASLGSSAPIAuthentication.test_invalid_gssapi_auth": "Connection time-out",
}
_SASL_TESTS = {
    "TestLegacySASLDigestAuthentication": ("test_connect_sasl_auth", "test_invalid_sasl_auth"),
    "TestSASLDigestAuthentication": ("test_connect_sasl_auth", "test_invalid_sasl_auth"),
    "TestSASLGSSAPIAuthentication": ("test_connect_gssapi_auth", "test_invalid_gssapi_auth"),
}
if ON_ZOOKEEPER:
    EXCEPTIONS["kazoo.tests.test_client.TestSSLClient.test_create"] = "it needs Netty as its factory"
    EXCEPTIONS |= {
        f"kazoo.tests.test_sasl.{group}.{name}": "one ZooKeeper has one mechanism, and here none"
        for group, names in _SASL_TESTS.items()
        for name in names
    }

# The suite is run in parts side by side, each with servers of its own, which its tests may stop. These tests
# need several servers; of the time that the others take, about half goes into the files of _SECOND.
_SEVERAL_SERVERS = "test_update_host_list or test_read_only"
_ALONE = 2  # servers for the parts that need but one
_SECOND = {"test_client", "test_connection", "test_eventlet_handler", "test_gevent_handler", "test_lock"}

# A busy machine takes a minute for the tests that stop and start servers.
_TEST_TIMEOUT_S = 180
_SUITE_TIMEOUT_S = 900


class _Part:
    """One run of some of the tests, and its outcome."""

    def __init__(
        self,
        folder: Path,
        name: str,
        servers: Sequence[ServerProcess],
        given: Mapping[str, str],
        arguments: Sequence[str],
    ) -> None:
        """`given`: variables that say what the servers offer beyond the protocol."""
        self.servers = servers
        self._given = given
        self._report = folder / f"{name}.xml"
        self._output = folder / f"{name}.log"
        self._arguments = arguments

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "pytest", "-p", "tests.clients.zkshim", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "-o", "log_cli=false", "--rootdir=.", f"--junitxml={self._report}"),
            *("-q", f"--timeout={_TEST_TIMEOUT_S}", *self._arguments),
        ]

    @contextmanager
    def running(self, source: Path, control_port: int) -> Iterator[subprocess.Popen[bytes]]:
        """The run as a process, which is dead afterwards."""
        told = re.search(r"Zookeeper version: ([0-9.]+)", four_letter_word(self.servers[0].port, "srvr"))
        assert told, "srvr tells the version"
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONSAFEPATH": "",  # kazoo is that of the suite; a session of Spark in this process has set it
            "KAZOO_SUITE_PORTS": ",".join(str(server.port) for server in self.servers),
            "KAZOO_SUITE_CONTROL": str(control_port),
            **self._given,
            # Makes kazoo compare the version that it reads of the server with the next line.
            "CI": "true",
            "ZOOKEEPER_VERSION": told[1],
        }
        with (
            self._output.open("wb") as output,
            subprocess.Popen(
                self.command(), cwd=source, env=environment, stdout=output, stderr=subprocess.STDOUT
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def outcomes(self) -> dict[str, str]:
        """Test -> why it did not pass, "" if it did."""
        assert self._report.exists(), self._output.read_text()[-4000:]
        outcomes = {}
        for case in ElementTree.parse(self._report).iter("testcase"):
            bad = [part for part in case if part.tag in {"failure", "error", "skipped"}]
            why = "\n".join(f"{part.tag}: {(part.text or '')[-1500:]}" for part in bad)
            outcomes[f"{case.get('classname')}.{case.get('name')}"] = why
        return outcomes


@pytest.fixture
def source() -> Path:
    """The unpacked source distribution of kazoo."""
    found = sorted((REPOSITORY / ".cache").glob("kazoo-*/kazoo/tests"))
    if not found:
        raise BinaryMissing("kazoo's test suite is not in .cache: make setup-test fetches it")
    return found[-1].parents[1]


@pytest.fixture
def tls(tmp_path: Path) -> Authority:
    """The CA of the servers and their clients; `servers` and `kazoo` are issued."""
    authority = Authority(tmp_path)
    authority.issue("kazoo")
    return authority


@pytest.fixture
def servers(
    etcd_server: EtcdServer, etcd_prefix: str, own_etcd_server: EtcdServer, tls: Authority, kdc: Kdc
) -> Iterator[list[ServerProcess]]:
    """Servers for the parts: two with a tree each, then three of one tree, with an etcd of their own.

    Where a part has a server alone, its restart gives sessions their whole time again, as with ZooKeeper.
    Another proxy of its tree would end them while a busy machine starts it.
    """
    pair = tls.issue("servers", "127.0.0.1", "localhost")
    files = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--tls-ca", str(tls.ca)]
    files += ["--sasl-user", "jaasuser:jaas_password"]
    files += ["--sasl-keytab", str(kdc.server_keytab), "--sasl-principal", kdc.service]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ZooKeeperServer(max_client_connections=0)
                if ON_ZOOKEEPER
                else ZketcdServer(
                    (etcd_server if number < _ALONE else own_etcd_server).endpoint,
                    prefix=f"{etcd_prefix}/{number}" if number < _ALONE else etcd_prefix,
                    max_client_connections=0,
                    read_only_mode="on",
                    arguments=files,
                    variables=kdc.client_environment(),
                )
            )
            for number in range(_ALONE if ON_ZOOKEEPER else 5)
        ]


class _Quorum:
    """The ensemble's etcd, which is silent while most of the ensemble is stopped.

    A test that stops two of three ZooKeepers wants the third to have no quorum. Here the quorum is etcd's.
    """

    def __init__(self, ensemble: Sequence[ServerProcess], etcd: EtcdServer) -> None:
        self._etcd = etcd
        self._ensemble = frozenset(ensemble)
        self._running = set(ensemble)
        self._enough = len(ensemble) // 2 + 1
        self._silent = False

    def stopped(self, server: ServerProcess) -> None:
        """A server has been stopped."""
        if server in self._running:
            self._running.remove(server)
            if self._running and len(self._running) < self._enough:
                self._silent = True
                self._etcd.pause()

    def starts(self, server: ServerProcess) -> None:
        """A stopped server is about to start, for which it needs etcd."""
        if self._silent and server in self._ensemble:
            self._silent = False
            self._etcd.resume()

    def started(self, server: ServerProcess) -> None:
        """It has started."""
        if server in self._ensemble:
            self._running.add(server)


class _Control(socketserver.TCPServer):
    """Obeys lines `stop PORT` and `start PORT` of the tests and answers `done`.

    handle_request has to be called in the thread that lives as long as the servers: the kernel ends a server
    with the thread that started it (prctl's PR_SET_PDEATHSIG).
    """

    timeout = 0.1

    def __init__(self, servers: Sequence[ServerProcess], quorum: _Quorum) -> None:
        by_port = {server.port: server for server in servers}

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                action, port = self.rfile.readline().decode().split()
                try:
                    server = by_port[int(port)]
                    if action == "start":
                        quorum.starts(server)
                        # A test that was ended while it waited for the start leaves it running.
                        if not server.alive:
                            server.start()
                        quorum.started(server)
                    else:
                        server.stop()
                        quorum.stopped(server)
                except Exception as error:  # noqa: BLE001 - the test that asked for it fails with this
                    self.wfile.write(f"{error!r}\n".encode())
                else:
                    self.wfile.write(b"done\n")

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.mark.timeout(_SUITE_TIMEOUT_S + 60)
def test_kazoo_suite(
    source: Path, servers: list[ServerProcess], own_etcd_server: EtcdServer, tmp_path: Path, kdc: Kdc
) -> None:
    given: dict[str, str] = {}
    if not ON_ZOOKEEPER:
        kdc.add("client", "client.keytab")
        given = {
            "KAZOO_SUITE_TLS": str(tmp_path),
            "KRB5_TEST_ENV": str(kdc.folder),
            **kdc.client_environment(),
        }
    files = {path.stem: f"kazoo/tests/{path.name}" for path in (source / "kazoo/tests").glob("test_*.py")}
    assert files.keys() > _SECOND
    alone = ["-k", f"not ({_SEVERAL_SERVERS})"]
    parts = [
        _Part(
            tmp_path,
            "first",
            servers[:1],
            given,
            [*alone, *(files[name] for name in sorted(files.keys() - _SECOND))],
        ),
        _Part(tmp_path, "second", servers[1:2], given, [*alone, *(files[name] for name in sorted(_SECOND))]),
    ]
    ensemble = servers[_ALONE:]
    if ensemble:
        parts.append(_Part(tmp_path, "third", ensemble, given, ["-k", _SEVERAL_SERVERS, "kazoo/tests"]))
    deadline = time.monotonic() + _SUITE_TIMEOUT_S
    with _Control(servers, _Quorum(ensemble, own_etcd_server)) as control, ExitStack() as stack:
        port = control.server_address[1]
        processes = [stack.enter_context(part.running(source, port)) for part in parts]
        while any(process.poll() is None for process in processes):
            assert time.monotonic() < deadline, "the suite takes too long"
            control.handle_request()

    outcomes: dict[str, str] = {}
    for part in parts:
        outcomes |= part.outcomes()
    failed = {test: why for test, why in outcomes.items() if why}
    unexpected = [f"{test}\n{why}" for test, why in failed.items() if not _is_known(test, why)]
    assert not unexpected, "\n\n".join([f"{len(unexpected)} tests of kazoo do not pass:", *unexpected])
    assert EXCEPTIONS.keys() - failed.keys() == set(), (
        "these pass, or are there no more: take them off the list"
    )


def _is_known(test: str, why: str) -> bool:
    return test in EXCEPTIONS or (test in RACES and RACES[test] in why)
