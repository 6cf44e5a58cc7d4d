"""ZooKeeper's transactions as rows of traffic."""

from codec.constants import OpCode
from pipeline.traffic.transactions import row
from schema.znode import CONTAINER_OWNER, ttl_owner
from tests.pipeline.trees import transaction
from tests.table import one_by_one


def test_a_create() -> None:
    given = transaction(7, OpCode.CREATE, "/a", data=b"xy", cxid=3, file="log.1", offset=16, owner=0)
    found = row([given], 99)
    assert (found.time, found.zxid, found.session_id, found.cxid) == (7, 7, 1, 3)
    assert (found.operation, found.path, found.bytes, found.size, found.mode) == (
        "create",
        "/a",
        2,
        99,
        "PERSISTENT",
    )
    assert (found.result, found.nodes, found.parts, found.file, found.offset) == ("OK", 1, None, "log.1", 16)


@one_by_one(
    ("owner", "counter", "mode"),
    [
        (0, 8, "PERSISTENT_SEQUENTIAL"),
        (0, 9, "PERSISTENT"),
        (0, None, "PERSISTENT"),
        (1, 8, "EPHEMERAL_SEQUENTIAL"),
        (1, 1, "EPHEMERAL"),
        (CONTAINER_OWNER, 8, "CONTAINER"),
        (ttl_owner(5), 1, "PERSISTENT_WITH_TTL"),
        (ttl_owner(5), 8, "PERSISTENT_SEQUENTIAL_WITH_TTL"),
    ],
)
def test_modes(owner: int, counter: int | None, mode: str) -> None:
    given = transaction(7, OpCode.CREATE, "/n-0000000007", owner=owner, parent_cversion=counter)
    assert row([given], 1).mode == mode


def test_a_multi() -> None:
    parts = [
        transaction(7, OpCode.CREATE, "/a", part=0, data=b"xy", owner=0),
        transaction(7, OpCode.SET_DATA, "/a", part=1, data=b"z"),
        transaction(7, OpCode.DELETE, "/b", part=2),
        transaction(7, OpCode.CHECK, "/c", part=3),
    ]
    found = row(parts, 9)
    assert (found.operation, found.path, found.bytes, found.result, found.nodes) == (
        "multi",
        None,
        3,
        "OK",
        0,
    )
    assert found.parts is not None
    assert [(part.operation, part.path, part.result) for part in found.parts] == [
        ("create", "/a", "OK"),
        ("setData", "/a", "OK"),
        ("delete", "/b", "OK"),
        ("check", "/c", "OK"),
    ]
    assert row([transaction(7, OpCode.MULTI)], 9).parts == ()


def test_what_failed() -> None:
    found = row([transaction(7, OpCode.ERROR, error=-101)], 9)
    assert (found.operation, found.result, found.nodes) == ("error", "NONODE", 0)
    parts = [
        transaction(7, OpCode.CREATE, "/a", part=0, owner=0),
        transaction(7, OpCode.ERROR, part=1, error=-110),
        transaction(7, OpCode.ERROR, part=2, error=-2),
    ]
    found = row(parts, 9)
    assert (found.operation, found.result, found.nodes) == ("multi", "NODEEXISTS", 0)
    assert found.parts is not None
    assert [part.result for part in found.parts] == ["OK", "NODEEXISTS", "RUNTIMEINCONSISTENCY"]


def test_sessions() -> None:
    opened = row([transaction(7, OpCode.CREATE_SESSION, timeout_ms=4)], 9)
    closed = row([transaction(8, OpCode.CLOSE_SESSION, paths=("/e", "/f"))], 9)
    assert (opened.operation, opened.nodes) == ("createSession", 0)
    assert (closed.operation, closed.paths, closed.nodes) == ("closeSession", ("/e", "/f"), -2)
