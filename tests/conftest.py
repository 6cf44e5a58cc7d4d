"""Fixtures for real servers, and the rules for tests that need them.

A test that uses one of REAL_FIXTURES is marked `real` automatically; one that uses lab.servers directly marks
itself, and fails if it does not. Where a server's program is missing such a test is skipped with the reason,
but fails under CI=true.
"""

import gc
import itertools
import os
import re
from collections import deque
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import grpc.aio
import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from xdist.scheduler import LoadFileScheduling

from lab.servers import BinaryMissing, EtcdServer, Kdc, ZketcdServer, ZooKeeperServer
from lab.servers.process import ServerProcess, closed_logs, recent_logs

# Of this file and of tests/pipeline/conftest.py. Where other fixtures start a server, tests mark themselves.
REAL_FIXTURES = {
    "origin",
    "live_server",
    "spark",
    "etcd_server",
    "own_etcd_server",
    "kdc",
    "zookeeper_server",
    "zketcd_server",
    "zketcd_pair",
}

# Short ticks keep tests of session expiry short; both servers get the same one.
TICK_TIME_MS = 500

# A property has as many examples as `make test` has time for, and forty times as many in `make properties`. A
# test that needs more than others takes a multiple of `hypothesis.settings.default.max_examples`. `make
# unit` has a fifth.
hypothesis.settings.register_profile("quick", deadline=None, print_blob=True, max_examples=5)
hypothesis.settings.register_profile("short", deadline=None, print_blob=True, max_examples=25)
hypothesis.settings.register_profile("full", hypothesis.settings.get_profile("short"), max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
if hypothesis.settings.get_current_profile_name() == "quick":
    # Hypothesis draws a constant of our source now and then, for which it reads all of it: a second.
    providers._get_local_constants = Constants

# A context of TLS reads the system's authorities, if there are any: 50 ms each time.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)

# The tests of what tests and measures, and of the repository: its documents, packages and deployments. `make
# unit` is about the product.
LONG_ROOMS = ("tests/bench/", "tests/deploy/", "tests/examples/", "tests/lab/", "tests/proof/", "tests/test_")

#: Which share of the files this process has, of how many (tools/test_in_shares.py).
_SHARE = [int(number) for number in os.environ.get("TEST_SHARE", "0/1").split("/")]

# Marks of a whole module.
_MARKED = re.compile(r"^pytestmark = .*pytest\.mark\.(real|long)\b", re.MULTILINE)

# A session of Spark takes as long to start as the tests of a file take, and so does a JVM with Curator.
_USES_SPARK = re.compile(r"\bspark: SparkSession\b")
_WITH_CURATOR = "tests/clients/curator/"

_prefix_numbers = itertools.count(1)
_running_test: deque[pytest.Item] = deque(maxlen=1)


@pytest.fixture(scope="session", autouse=True)
def nothing_blocks_the_loop() -> Iterator[BlockBuster]:
    """Any call from our server's code on an event loop that would block it raises BlockingError."""
    with blockbuster_ctx(["proxy", "serve", "console"]) as guard:
        # Open files and memory are read from /proc, for which no disk is asked.
        guard.functions["os.listdir"].can_block_in("proxy/admin/facts.py", "_open_files")
        guard.functions["os.stat"].can_block_in("proxy/admin/facts.py", "_open_files")
        guard.functions["os.read"].can_block_in("proxy/admin/prometheus.py", "_resident_bytes")
        yield guard


@pytest.fixture(scope="session", autouse=True)
def only_real_tests_start_servers() -> Iterator[None]:
    """Else `make unit` would start servers, and take as long."""
    launch = ServerProcess.launch

    def checked(server: ServerProcess) -> None:
        if _running_test[0].get_closest_marker("real") is None:
            pytest.fail(f"a test that starts {server.name} has to be marked `real`")
        launch(server)

    with mock.patch.object(ServerProcess, "launch", checked):
        yield


@pytest.fixture(scope="session", autouse=True)
def zketcds_are_forked() -> Iterator[None]:
    """Their imports would be a tenth of a whole run."""
    with mock.patch.object(ZketcdServer, "forks", new=True):
        yield


@pytest.fixture(scope="session", autouse=True)
def grpc_stays_up() -> Iterator[None]:
    """Hold grpc.aio's thread: else the last channel collected joins it, on the loop of whichever test."""
    grpc.aio.init_grpc_aio()  # type: ignore[attr-defined]
    yield
    grpc.aio.shutdown_grpc_aio()  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    """An etcd shared by all tests: keep to the `etcd_prefix` of your test, do not stop it."""
    with EtcdServer() as server:
        yield server


@pytest.fixture
def own_etcd_server() -> Iterator[EtcdServer]:
    """An etcd of the test's own, that it may stop, kill, pause or fill."""
    with EtcdServer() as server:
        yield server


@pytest.fixture(scope="session")
def kdc() -> Iterator[Kdc]:
    """A Kerberos realm shared by all tests: add principals of your own, do not stop it."""
    with Kdc() as server:
        yield server


@pytest.fixture
def etcd_prefix() -> str:
    """A prefix that no other test uses."""
    return f"/test-{os.getpid()}-{next(_prefix_numbers)}"


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper shared by all tests: work below a node of your own, do not stop it."""
    with ZooKeeperServer(tick_time=TICK_TIME_MS, max_client_connections=0) as server:
        yield server


@pytest.fixture
def zketcd_server(etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[ZketcdServer]:
    """A proxy of the test's own, on an empty prefix of the shared etcd."""
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, tick_time=TICK_TIME_MS) as server:
        yield server


@pytest.fixture
def zketcd_pair(etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[tuple[ZketcdServer, ZketcdServer]]:
    """Two proxies of the test's own that serve one tree, on an empty prefix of the shared etcd."""
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, tick_time=TICK_TIME_MS) as first,
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, tick_time=TICK_TIME_MS) as second,
    ):
        yield first, second


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests are run by one process, for the servers that they share; so are all files with Spark,
    and all with Curator.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file.startswith(_WITH_CURATOR):
            return _WITH_CURATOR
        return "Spark" if file in _files_with_spark(self.config.rootpath) else file


@cache
def _files_with_spark(root: Path) -> frozenset[str]:
    files = (root / "tests" / "pipeline").rglob("test_*.py")
    return frozenset(
        path.relative_to(root).as_posix()
        for path in files
        if _USES_SPARK.search(path.read_text(encoding="utf-8"))
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Scheduling:
    """For any number of processes."""
    return _Scheduling(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse parameters that are a set: xdist runs nothing if two processes list tests unlike."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if len(mark.args) > 1 and isinstance(mark.args[1], set | frozenset):
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: give its parameters an order (sorted)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules none of whose tests this process runs, nor the conftest.py of their folder."""
    unwanted = _unwanted(config)
    name = collection_path.relative_to(config.rootpath).as_posix()
    if "long" in unwanted and f"{name}/".startswith(LONG_ROOMS):
        return True
    is_module = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if _SHARE[1] > 1 and (is_module or collection_path.is_dir()):
        ours = share(config.rootpath, unwanted, *_SHARE)
        if name not in ours and not any(each.startswith(f"{name}/") for each in ours):
            return True
    return (is_module and _is_unwanted(collection_path, unwanted)) or None


def _unwanted(config: pytest.Config) -> frozenset[str]:
    return frozenset(re.findall(r"not (real|long)", config.option.markexpr))


def _is_unwanted(path: Path, unwanted: frozenset[str]) -> bool:
    return bool(unwanted) and not unwanted.isdisjoint(_MARKED.findall(path.read_text(encoding="utf-8")))


@cache
def share(root: Path, unwanted: frozenset[str], number: int, count: int) -> frozenset[str]:
    """The files of one of `count` processes: neighbours, which import the same, of about equal bytes."""
    files = [path for path in sorted((root / "tests").rglob("test_*.py")) if not _is_unwanted(path, unwanted)]
    names = [path.relative_to(root).as_posix() for path in files]
    if "long" in unwanted:
        names = [name for name in names if not name.startswith(LONG_ROOMS)]
    ends = list(itertools.accumulate((root / name).stat().st_size for name in names))
    return frozenset(
        name for name, end in zip(names, ends, strict=True) if (end - 1) * count // ends[-1] == number
    )


def pytest_collection() -> None:
    """Modules and tests are made to stay: looking for garbage among them takes a tenth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor need a later collection look at them."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses a real server, before pytest selects by -m, and run it after all that is quicker.

    Several processes wait for servers first: behind that, quick tests keep all of them busy to the end.
    """
    if _SHARE[1] > 1:  # a file that the command line names is imported whosever it is
        ours = share(config.rootpath, _unwanted(config), *_SHARE)
        items[:] = [item for item in items if item.nodeid.partition("::")[0] in ours]
    for item in items:
        if not REAL_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
        if item.nodeid.startswith(LONG_ROOMS):
            item.add_marker(pytest.mark.long)
    first = hasattr(config, "workerinput")
    items.sort(key=lambda item: (item.get_closest_marker("real") is not None) != first)


def _skip_if_missing() -> Generator[None, object, object]:
    try:
        return (yield)
    except BinaryMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Turn a missing program into a skip, and forget the logs of earlier tests."""
    closed_logs.clear()
    _running_test.append(item)
    return (yield from _skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Turn a missing program into a skip."""
    return (yield from _skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the servers' logs beside a failure."""
    report = yield
    if report.failed:
        report.sections.extend((f"log of {log.server}", log.tail) for log in recent_logs() if log.tail)
    return report
