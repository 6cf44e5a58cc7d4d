"""The relay that looks at requests passes everything on, and sees what a request is and how long it takes."""

import time
from contextlib import closing

import pytest

from bench.scenarios.insert import Tap, kind_of
from codec import client as zk
from lab.client.blocking import Client
from lab.servers import ZketcdServer

pytestmark = pytest.mark.real


def test_requests_are_seen_with_their_times(zketcd_server: ZketcdServer) -> None:
    with closing(Tap(zketcd_server.port)) as tap:
        begun = time.perf_counter()
        with Client(tap.port) as client:
            client.create("/tapped", b"data")
            client.transact([zk.create("/tapped/a"), zk.create("/tapped/b"), zk.delete("/tapped/a")])
            assert client.stat("/tapped")
            client.close()
        ended = time.perf_counter()
    seen = [each for each in tap.passed if each.what != "close"]
    assert [each.what for each in seen[:3]] == ["create", "multi: 2 create, 1 delete", "exists"]
    assert all(begun < each.asked < each.answered < ended for each in seen)


def test_an_unknown_opcode_is_an_error() -> None:
    with pytest.raises(ValueError, match="4711"):
        kind_of(4711, b"")
