"""How the pipeline reaches etcd: the options of the command line, the environment and Spark."""

import argparse
from unittest import mock

import pytest

from pipeline.etcd.address import ACCESS
from pipeline.etcd.options import Connection, add_arguments
from proxy.etcd.transport import TRANSPORTS


def _parsed(*arguments: str) -> Connection:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return Connection.from_arguments(parser.parse_args(arguments))


def test_the_same_options_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKETCD_ETCD_USER", "me")
    given = _parsed("--etcd", "http://e:1", "--etcd-password", "word", "--etcd-transport", "grpcio")
    assert given == Connection("http://e:1", etcd_user="me", etcd_password="word", etcd_transport="grpcio")
    assert Connection.from_options(given.options()) == given
    assert Connection.from_options({"etcd": "http://e:1"}) == Connection("http://e:1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the option etcd is missing"),
        ({"etcd": "e", "etcd-cert": "c"}, "etcd-cert and etcd-key go together"),
        ({"etcd": "e", "etcd-user": "u"}, "etcd-user and etcd-password go together"),
        ({"etcd": "e", "etcd-transport": "tcp"}, "etcd-transport is http2 or grpcio, not tcp"),
        ({"etcd": "e", "prefix": "a//b"}, "prefix"),
    ],
)
def test_wrong_options(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Connection.from_options(options)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("etcd://e:1?prefix=", "must not be empty"),
        ("etcd://e:1?prefix=a/", "must not be empty, end with '/'"),
        ("etcd://e:1/a//b", "hold '//'"),
    ],
)
def test_a_prefix_of_a_name_that_cannot_be(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Connection.from_url(url, argparse.Namespace(**dict.fromkeys(ACCESS, "")))


def test_an_empty_prefix_is_not_the_default_one() -> None:
    """A variable of a script that is not set: --overwrite must not delete the default tree."""
    with pytest.raises(ValueError, match="must not be empty"):
        _parsed("--etcd", "http://e:1", "--prefix", "")


async def test_a_client_has_the_transport_that_was_asked_for() -> None:
    for transport in TRANSPORTS:
        connection = Connection.from_options({"etcd": "http://127.0.0.1:1", "etcd-transport": transport})
        with mock.patch("pipeline.etcd.options.EtcdClient") as client:
            client.return_value.close = mock.AsyncMock()
            async with connection.client():
                pass
        assert client.call_args.kwargs["transport"] == transport
