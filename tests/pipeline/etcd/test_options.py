"""How the pipeline reaches etcd: the options of the command line, the environment and Spark."""

import argparse

import pytest

from pipeline.etcd.options import Connection, add_arguments


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
