"""32-bit counters that wrap: a tree that is about to, and the same requests on ZooKeeper and on zketcd.

ZooKeeper gets it as the snapshot that it starts from, zketcd as an import.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from lab.oracle.client import Client
from lab.oracle.requests import (
    OPEN,
    SEQUENTIAL,
    Check,
    Create,
    Delete,
    Exists,
    Multi,
    Request,
    SetAcl,
    SetData,
    opcode,
)
from lab.oracle.wire import Stat
from lab.servers import EtcdServer
from proxy.etcd.client import EtcdClient
from schema.keys import Keyspace
from tests.compat import fields
from tests.compat.conftest import real_zookeeper, zketcd_proxy
from tests.pipeline.etcd.rows import FIXED, load_tree
from tests.pipeline.trees import node, write_snapshot

pytestmark = pytest.mark.real

_MAX = (1 << 31) - 1
_MIN = -(1 << 31)
_ZXID = 1 << 32

_ROWS = [
    node("/", created=8),
    *(row._replace(created=2 if row.path == "/zookeeper" else row.created) for row in FIXED),
    *(node(f"/version{value}", version=value) for value in (_MAX - 1, _MIN, -3, -2, -1)),
    *(node(f"/aversion{value}", aversion=value) for value in (_MAX - 1, -3, -2)),
    *(node(f"/parent{value}", created=value) for value in (_MAX // 2, _MAX - 2, -3)),
]
NODE_EXISTS = -110


class Shown(NamedTuple):
    """A request and its reply, without the times of the host."""

    request: Request
    zxid: int
    err: int
    values: Any


def _steps() -> Iterator[Request]:
    for value in (_MAX - 1, _MIN, -3, -2, -1):
        path = f"/version{value}"
        yield Multi((Check(path, value),))
        for expected in (value, 5, -1, _MAX, _MIN, -2, -1, -1, 0, 1):
            yield from (SetData(path, version=expected), Exists(path))
        yield Multi((SetData(path), SetData(path), Check(path, 3)))
    for value in (_MAX - 1, -3, -2):
        for expected in (value, 5, -1, _MAX, _MIN, -2, -1, 0):
            yield from (SetAcl(f"/aversion{value}", OPEN, expected), Exists(f"/aversion{value}"))
    for value in (_MAX // 2, -3):
        yield from _fill(f"/parent{value}")


def _sequential(path: str) -> Create:
    return Create(path, flags=SEQUENTIAL, with_stat=True)


def _fill(path: str) -> Iterator[Request]:
    for number in range(5):
        yield from (_sequential(f"{path}/n-"), Exists(path))
        yield from (Create(f"{path}/{number}", with_stat=True), Exists(path))
    yield from (Multi((_sequential(f"{path}/m-"),) * 3), Exists(path))
    yield from (Delete(f"{path}/1"), Exists(path))


def _timeless(value: Any) -> Any:
    if isinstance(value, Stat):
        return value._replace(ctime=0, mtime=0)
    return tuple(map(_timeless, value)) if isinstance(value, tuple) else value


def _play(port: int, requests: Iterable[Request]) -> list[Shown]:
    found = []
    with Client(port) as session:
        for request in requests:
            reply = session.ask_for_reply(request)
            values = fields.decode(opcode(request), reply.body, "")
            found.append(Shown(request, reply.zxid, reply.err, _timeless(values)))
    return found


async def _load(etcd: EtcdServer, prefix: str) -> None:
    client = EtcdClient([etcd.endpoint])
    try:
        await load_tree(client, Keyspace(prefix), _ROWS, zxid=_ZXID)
    finally:
        await client.close()


@pytest.fixture(scope="module")
def ports(etcd_server: EtcdServer) -> Iterator[tuple[int, int]]:
    """ZooKeeper's and zketcd's, both with the tree."""
    zookeeper = real_zookeeper()
    write_snapshot(zookeeper.data_dir / "version-2", _ZXID, _ROWS)
    asyncio.run(_load(etcd_server, f"/wraps-{os.getpid()}"))
    with zookeeper, zketcd_proxy(etcd_server, "/wraps") as proxy:
        yield zookeeper.port, proxy.port


def test_versions_and_counters_wrap_as_zookeepers(ports: tuple[int, int]) -> None:
    expected, found = (_play(port, _steps()) for port in ports)
    assert found == expected
    values = [value for shown in expected for value in shown.values]
    assert f"/parent{_MAX // 2}/n-{_MAX // 2}" in values
    assert {_MAX, _MIN, -1, 0} <= {value.version for value in values if isinstance(value, Stat)}


def test_names_after_the_last_one_of_a_directory(ports: tuple[int, int]) -> None:
    """ZooKeeper's counter stays where it is (DataTree.createNode takes a larger one only); ours counts on."""
    path = f"/parent{_MAX - 2}"
    steps: list[Request] = [
        *[_sequential(f"{path}/n-")] * 3,
        Exists(path),
        _sequential(f"{path}/n-"),
        Exists(path),
    ]
    expected, found = (_play(port, steps) for port in ports)
    assert found[:3] == expected[:3]
    assert found[2].values[0] == f"{path}/n-{_MAX}"
    assert expected[4].err == NODE_EXISTS, "ZooKeeper gives the same name again"
    assert found[4].values[0] == f"{path}/n-{_MIN}"
    (before,), (after,) = expected[3].values, found[3].values
    assert (before.cversion, after.cversion) == (2 * _MAX - 3 - (1 << 32), 2 * (_MAX + 1) - 3 - (1 << 32))
    assert after.pzxid == before.pzxid + 1
