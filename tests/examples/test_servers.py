"""Where programs run, as their options say it."""

import argparse

import pytest

from examples.servers import add_servers, check_servers
from lab.client.session import Address


def _parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_servers(parser)
    options = parser.parse_args(arguments)
    check_servers(parser, options)
    return options


def test_servers_and_their_labels() -> None:
    options = _parsed("one=h:1,[::1]:2", "--beside", "g:3", "--below", "/a/b")
    assert options.server == ("one", [Address("h", 1), Address("::1", 2)])
    assert (options.beside.label, options.below) == ("g:3", "/a/b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a server's address or --start"),
        (["--start", "--beside", "h:1"], "leave --beside out"),
        (["h:1", "--beside", "h:1"], "both servers have the label h:1"),
        (["h"], "'h' isn't HOST:PORT"),
        (["=h:1"], "has an empty label"),
        (["h:1", "--below", "a"], "isn't the path of a node"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        _parsed(*arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
