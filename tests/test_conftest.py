"""The rules of conftest.py: missing programs skip or fail, a blocked loop is an error, failures show logs."""

import asyncio
import subprocess
import sys
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import pytest
from blockbuster import BlockingError

import proxy
from lab.servers import BinaryMissing
from lab.servers.process import REPOSITORY, ServerLog, closed_logs
from tests import conftest


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", BinaryMissing)])
def test_a_missing_program_skips_here_and_fails_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    hook = conftest.pytest_runtest_call()
    next(hook)
    with pytest.raises(outcome, match="etcd is not installed"):
        hook.throw(BinaryMissing("etcd is not installed"))


async def test_a_call_of_the_proxy_that_blocks_the_loop_is_an_error() -> None:
    place = Path(proxy.__path__[0]) / "example.py"
    blocking = compile("import time\ntime.sleep(0)", str(place), "exec")
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        exec(blocking, {})
    await asyncio.sleep(0)


def test_parameters_that_are_a_set_are_refused() -> None:
    """Two processes would list the same tests in another order, and pytest-xdist then runs none."""
    definition = Mock(nodeid="a test")
    definition.iter_markers.return_value = [pytest.mark.parametrize("letter", {"a", "b"}).mark]
    with pytest.raises(pytest.UsageError, match="a test: give its parameters an order"):
        conftest.pytest_generate_tests(Mock(definition=definition))


def test_logs_of_servers_stand_by_a_failure() -> None:
    closed_logs.append(ServerLog("etcd on port 1", "the reason"))
    report = pytest.TestReport("a", ("a", 0, "a"), {}, "failed", "long", "call")
    hook = conftest.pytest_runtest_makereport()
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    assert ("log of etcd on port 1", "the reason") in report.sections


def test_each_file_is_in_one_share() -> None:
    shares = [conftest.share(REPOSITORY, frozenset(), number, 3) for number in range(3)]
    files = sorted(
        path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "tests").rglob("test_*.py")
    )
    assert sorted(chain.from_iterable(shares)) == files
    sizes = [sum((REPOSITORY / name).stat().st_size for name in share) for share in shares]
    assert max(sizes) < 1.2 * min(sizes)


@pytest.mark.parametrize(("selection", "code"), [("a_file_without_a_password", 0), ("no_such_test", 5)])
def test_shares_end_as_one_run(selection: str, code: int) -> None:
    """One of them has no test that is selected."""
    command = [sys.executable, "tools/test_in_shares.py", "2", "-q", "-k", selection, "-m", "not real"]
    files = ["tests/codec/test_seal.py", "tests/proxy/test_etcd_options.py"]
    run = subprocess.run([*command, *files], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stdout + run.stderr
    assert run.stdout.count("1 passed") == (code == 0)
