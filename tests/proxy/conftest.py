"""Command lines of the server: without the machine's own settings, and what is said of a wrong one."""

import os
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from proxy.config import parse


@pytest.fixture
def no_environment() -> Iterator[None]:
    """The machine's own settings have no say."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZKETCD_")}
    with mock.patch.dict(os.environ, kept, clear=True):
        yield


@pytest.fixture
def complaint(no_environment: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The error of a wrong command line: one line, and exit code 2."""

    def complain(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            parse(arguments)
        assert ended.value.code == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        return line

    return complain
