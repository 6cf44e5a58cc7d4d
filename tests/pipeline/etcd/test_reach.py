"""What a command says about an etcd that it cannot reach."""

import contextlib
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from pipeline.errors import Failure
from pipeline.etcd import reach
from pipeline.etcd.options import Connection
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdUnknown, Get


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
