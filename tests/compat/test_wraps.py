"""32-bit counters that wrap: a tree that is about to, and the same requests on ZooKeeper and on zketcd.

ZooKeeper gets it as the snapshot that it starts from, zketcd as an import.
"""

import asyncio
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lab.oracle import wire
from lab.oracle.wire import Connection, Cursor, Event, Reply, Session, Stat
from lab.servers import EtcdServer
from proxy.etcd.client import EtcdClient
from schema.keys import Keyspace
from tests.compat.conftest import real_zookeeper, zketcd_proxy
from tests.pipeline.etcd.rows import FIXED, load_tree
from tests.pipeline.trees import node, write_snapshot

pytestmark = pytest.mark.real

_MAX = (1 << 31) - 1
_MIN = -(1 << 31)
_ZXID = 1 << 32
_OPEN = wire.pack_acls([(31, "world", "anyone")])
_END = struct.pack(">i?i", -1, True, -1)

_ROWS = [
    node("/", created=8),
    *(row._replace(created=2 if row.path == "/zookeeper" else row.created) for row in FIXED),
    *(node(f"/version{value}", version=value) for value in (_MAX - 1, _MIN, -3, -2, -1)),
    *(node(f"/aversion{value}", aversion=value) for value in (_MAX - 1, -3, -2)),
    *(node(f"/parent{value}", created=value) for value in (_MAX // 2, _MAX - 2, -3)),
]
NODE_EXISTS = -110


class Step(NamedTuple):
    """A request."""

    opcode: int
    body: bytes
    what: str


def _create(path: str, flags: int = 0) -> Step:
    body = wire.pack_string(path) + wire.pack_buffer(b"") + _OPEN + wire.pack_int(flags)
    return Step(wire.CREATE2, body, f"create {path}")


def _set(path: str, version: int = -1) -> Step:
    body = wire.pack_string(path) + wire.pack_buffer(b"") + wire.pack_int(version)
    return Step(wire.SET_DATA, body, f"set {path} {version}")


def _set_acl(path: str, version: int = -1) -> Step:
    return Step(
        wire.SET_ACL, wire.pack_string(path) + _OPEN + wire.pack_int(version), f"acl {path} {version}"
    )


def _delete(path: str, version: int = -1) -> Step:
    return Step(wire.DELETE, wire.pack_string(path) + wire.pack_int(version), f"delete {path} {version}")


def _check(path: str, version: int) -> Step:
    return Step(wire.CHECK, wire.pack_string(path) + wire.pack_int(version), f"check {path} {version}")


def _stat(path: str) -> Step:
    return Step(wire.EXISTS, wire.pack_string(path) + b"\0", f"stat {path}")


def _multi(*parts: Step) -> Step:
    body = b"".join(struct.pack(">i?i", part.opcode, False, -1) + part.body for part in parts) + _END
    return Step(wire.MULTI, body, f"multi {', '.join(part.what for part in parts)}")


def _steps() -> Iterator[Step]:
    for value in (_MAX - 1, _MIN, -3, -2, -1):
        path = f"/version{value}"
        yield _multi(_check(path, value))
        for expected in (value, 5, -1, _MAX, _MIN, -2, -1, -1, 0, 1):
            yield _set(path, expected)
            yield _stat(path)
        yield _multi(_set(path), _set(path), _check(path, 3))
    for value in (_MAX - 1, -3, -2):
        for expected in (value, 5, -1, _MAX, _MIN, -2, -1, 0):
            yield _set_acl(f"/aversion{value}", expected)
            yield _stat(f"/aversion{value}")
    for value in (_MAX // 2, -3):
        yield from _fill(f"/parent{value}")


def _fill(path: str) -> Iterator[Step]:
    for number in range(5):
        yield _create(f"{path}/n-", 2)
        yield _stat(path)
        yield _create(f"{path}/{number}")
        yield _stat(path)
    yield _multi(_create(f"{path}/m-", 2), _create(f"{path}/m-", 2), _create(f"{path}/m-", 2))
    yield _stat(path)
    yield _delete(f"{path}/1")
    yield _stat(path)


def _shown(step: Step, reply: Reply) -> tuple[object, ...]:
    """A reply without the times of the host."""
    if reply.err:
        return step.what, reply.zxid, reply.err
    if step.opcode == wire.MULTI:
        return step.what, reply.zxid, len(reply.body)
    cursor = Cursor(reply.body)
    path = cursor.string() if step.opcode == wire.CREATE2 else None
    stat = cursor.stat()._replace(ctime=0, mtime=0) if cursor.position < len(reply.body) else None
    return step.what, reply.zxid, path, stat


def _play(port: int, steps: Iterator[Step]) -> list[tuple[object, ...]]:
    connection = Connection(port)
    assert isinstance(connection.connect(), Session)
    found = []
    for xid, step in enumerate(steps, 1):
        connection.send(wire.frame(struct.pack(">ii", xid, step.opcode) + step.body))
        while isinstance(reply := connection.receive(), Event):
            pass
        assert isinstance(reply, Reply), step
        found.append(_shown(step, reply))
    connection.close()
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
    assert f"/parent{_MAX // 2}/n-{_MAX // 2}" in [shown[2] for shown in expected]
    versions = [shown[3].version for shown in expected if isinstance(shown[-1], Stat)]  # type: ignore[attr-defined]
    assert {_MAX, _MIN, -1, 0} <= set(versions)


def test_names_after_the_last_one_of_a_directory(ports: tuple[int, int]) -> None:
    """ZooKeeper's counter stays where it is (DataTree.createNode takes a larger one only); ours goes on."""
    path = f"/parent{_MAX - 2}"
    steps = (
        *(_create(f"{path}/n-", 2) for _ in range(3)),
        _stat(path),
        _create(f"{path}/n-", 2),
        _stat(path),
    )
    expected, found = (_play(port, iter(steps)) for port in ports)
    assert found[:3] == expected[:3]
    assert found[2][2] == f"{path}/n-{_MAX}"
    assert expected[4][2] == NODE_EXISTS, "ZooKeeper gives the same name again"
    assert found[4][2] == f"{path}/n-{_MIN}"
    before, after = expected[3][3], found[3][3]
    assert isinstance(before, Stat)
    assert isinstance(after, Stat)
    assert (before.cversion, after.cversion) == (2 * _MAX - 3 - (1 << 32), 2 * (_MAX + 1) - 3 - (1 << 32))
    assert after.pzxid == before.pzxid + 1
