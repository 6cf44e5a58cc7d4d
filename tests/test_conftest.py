"""The rules of conftest.py: missing programs skip or fail, a blocked loop is an error, failures show logs."""

import asyncio
from pathlib import Path
from unittest.mock import Mock

import pytest
from blockbuster import BlockingError

import proxy
from lab.servers import BinaryMissing
from lab.servers.process import ServerLog, closed_logs
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
