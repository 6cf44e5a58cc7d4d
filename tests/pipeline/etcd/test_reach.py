"""What a command says about an etcd that it cannot reach."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from pipeline.errors import Failure
from pipeline.etcd import reach
from pipeline.etcd.options import Connection
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdRefused, EtcdUnknown, Get, RefusalKind
from proxy.options.etcd import DEFAULTS


async def test_the_reason_is_that_of_a_try_that_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "TIMEOUT", 2.0)  # a whole try, and several that are shorter and shorter
    timeouts = []

    async def answer(_get: Get, timeout: float) -> None:
        timeouts.append(timeout)
        raise EtcdUnknown("the reason" if timeout == max(timeouts) else "deadline exceeded")

    class Unreachable(Connection):
        @contextlib.asynccontextmanager
        async def client(self) -> AsyncIterator[EtcdClient]:
            yield mock.Mock(EtcdClient, range=answer)

    with pytest.raises(Failure, match="cannot be reached: the reason"):
        async with reach.reached(Unreachable("http://127.0.0.1:1")):
            pass
    assert timeouts[-1] < timeouts[0]


def connection_to(client: mock.Mock) -> Connection:
    class To(Connection):
        @contextlib.asynccontextmanager
        async def client(self) -> AsyncIterator[EtcdClient]:
            yield client

    return To("http://127.0.0.1:1", "/t", dataclasses.replace(DEFAULTS, user="standby"))


@pytest.mark.parametrize("what", ["read", "write"])
async def test_whose_right_is_missing(what: str) -> None:
    denied = EtcdRefused(RefusalKind.PERMISSION, "etcdserver: permission denied")
    asked = {"range": denied if what == "read" else None, "txn": denied}
    client = mock.Mock(EtcdClient, **{f"{name}.side_effect": error for name, error in asked.items()})
    words = f"http://127.0.0.1:1 refuses: user standby may not {what} the keys of /t: etcdserver: permission"
    with pytest.raises(Failure, match=words):
        async with reach.reached(connection_to(client), writes=True):
            pass


async def test_a_command_that_runs_until_it_is_stopped_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "TIMEOUT", 0.0)
    monkeypatch.setattr(reach, "_WAIT", 0.0)
    client = mock.Mock(EtcdClient, **{"range.side_effect": [EtcdUnknown("no member answers"), None]})
    told: list[str] = []
    async with reach.reached(connection_to(client), waiting=told.append):
        pass
    (line,) = told
    assert line.endswith("cannot be reached: no member answers: trying again")
