"""What came of each request, from a machine that executes it."""

import struct

import pytest

from codec.constants import KeeperOpCode, OpCode
from codec.jute import OPEN_ACLS, pack_buffer, pack_string
from codec.packets import MULTI_HEADER
from pipeline.traffic.outcomes import Recorder
from pipeline.traffic.table import TrafficRow
from proxy.log.load.replay import Place
from proxy.state import capture
from schema.entry import Entry, Identity, Kind, Request, Rules, encode_close, encode_node_due
from tests.proxy.log.trees import created, opened

SEQUENTIAL, EPHEMERAL = 2, 1


def run(*requests: Request, after: int = 0) -> list[TrafficRow]:
    """The rows of one entry on an empty tree, in which session 1 is opened first."""
    machine = capture.new_machine(1)
    rows: list[TrafficRow] = []
    recorder = Recorder({"p": after}, rows.append)
    entry = Entry(5, Rules.KEEPER, 0, 0, [opened(1), *requests])
    machine.begin("p", 1, entry.clock, entry.rules)
    for index, request in enumerate(entry.requests):
        recorder.execute(machine, entry, request, Place(9, "p", 1, index))
    machine.end()
    return rows[1:]


def create(path: str, data: bytes = b"", flags: int = 0) -> bytes:
    return created(1, path, data, flags).body


def client(opcode: int, body: bytes, session: int = 1) -> Request:
    return Request(Kind.CLIENT, session, opcode, (Identity("ip", "10.0.0.1"),), body)


def multi(*parts: tuple[int, bytes]) -> Request:
    body = b"".join(MULTI_HEADER.pack(opcode, False, -1) + part for opcode, part in parts)
    return client(OpCode.MULTI, body + MULTI_HEADER.pack(-1, True, -1))


def version(path: str, number: int = -1) -> bytes:
    return pack_string(path) + struct.pack(">i", number)


def set_data(path: str, data: bytes) -> bytes:
    return pack_string(path) + pack_buffer(data) + struct.pack(">i", -1)


def test_what_is_known_of_a_create() -> None:
    (row,) = run(client(OpCode.CREATE, create("/a", b"xyz")))
    assert row == TrafficRow(
        time=5,
        zxid=2,
        session_id=1,
        operation="create",
        path="/a",
        bytes=3,
        size=len(create("/a", b"xyz")),
        mode="PERSISTENT",
        parts=None,
        result="OK",
        paths=None,
        nodes=1,
        grown=5,
        position=9,
        proxy="p",
        number=1,
        request=1,
        identities=("ip:10.0.0.1",),
        cxid=None,
        file=None,
        offset=None,
    )


def test_sequential_nodes_have_the_paths_that_they_got() -> None:
    rows = run(
        client(OpCode.CREATE2, create("/n-", flags=SEQUENTIAL)),
        multi(
            (OpCode.CREATE, create("/n-0000000009")),
            (OpCode.CREATE, create("/n-", flags=SEQUENTIAL)),
            (OpCode.SET_DATA, set_data("/n-0000000009", b"12")),
            (OpCode.CREATE, create("/n-", flags=SEQUENTIAL | EPHEMERAL)),
        ),
        client(OpCode.CLOSE_SESSION, b""),
    )
    assert [row.path for row in rows] == ["/n-0000000000", None, None]
    assert rows[1].parts is not None
    assert [(part.operation, part.path, part.mode, part.result) for part in rows[1].parts] == [
        ("create", "/n-0000000009", "PERSISTENT", "OK"),
        ("create", "/n-0000000002", "PERSISTENT_SEQUENTIAL", "OK"),
        ("setData", "/n-0000000009", None, "OK"),
        ("create", "/n-0000000003", "EPHEMERAL_SEQUENTIAL", "OK"),
    ]
    assert (rows[1].bytes, rows[1].nodes, rows[2].paths, rows[2].nodes) == (2, 3, ("/n-0000000003",), -1)
    assert [row.zxid for row in rows] == [2, 3, 4]


def test_what_failed_says_why_and_where() -> None:
    rows = run(
        client(OpCode.DELETE, version("/no")),
        multi(
            (OpCode.CREATE, create("/a")),
            (OpCode.CHECK, version("/no", 3)),
            (OpCode.CREATE, create("/s", flags=SEQUENTIAL)),
        ),
        multi(),
        client(OpCode.CREATE, create("/a"), session=77),
        client(OpCode.CREATE, b"rubbish"),
        client(OpCode.SYNC, pack_string("/a")),
    )
    assert [(row.operation, row.path, row.result, row.zxid) for row in rows] == [
        ("delete", "/no", "NONODE", 2),
        ("multi", None, "NONODE", 3),
        ("multi", None, "OK", 4),
        ("create", "/a", "SESSIONEXPIRED", 5),
        ("create", None, "MARSHALLINGERROR", rows[4].zxid),
        ("sync", "/a", "OK", None),
    ]
    assert rows[1].parts is not None
    assert [(part.path, part.result) for part in rows[1].parts] == [
        ("/a", "OK"),
        ("/no", "NONODE"),
        ("/s", "RUNTIMEINCONSISTENCY"),
    ]
    assert rows[2].parts == ()
    assert {row.nodes for row in rows} == {0}


def test_requests_of_keeper_and_of_proxies() -> None:
    rows = run(
        client(KeeperOpCode.CREATE_IF_NOT_EXISTS, create("/k", b"1")),
        client(KeeperOpCode.CREATE_IF_NOT_EXISTS, create("/k", b"1")),
        client(OpCode.CREATE, create("/k/below")),
        client(KeeperOpCode.REMOVE_RECURSIVE, pack_string("/k") + struct.pack(">i", 100)),
        client(
            OpCode.CREATE_CONTAINER, pack_string("/c") + pack_buffer(b"") + OPEN_ACLS + bytes([0, 0, 0, 4])
        ),
        Request(Kind.NODE_DUE, 0, 0, (), encode_node_due("/c", 0, 5, 6, 0)),
        Request(Kind.NODE_DUE, 0, 0, (), b"broken"),
        Request(Kind.CLOSE, 1, 0, (), encode_close("too long silent", "")),
    )
    assert [(row.operation, row.path, row.nodes) for row in rows] == [
        ("createIfNotExists", "/k", 1),
        ("createIfNotExists", "/k", 0),
        ("create", "/k/below", 1),
        ("removeRecursive", "/k", -2),
        ("createContainer", "/c", 1),
        ("deleteContainer", "/c", rows[5].nodes),
        ("deleteContainer", None, 0),
        ("closeSession", None, 0),
    ]
    assert rows[3].paths == ("/k/below", "/k")
    assert rows[4].mode == "CONTAINER"


def test_what_is_not_wanted_is_applied_only() -> None:
    assert run(client(OpCode.CREATE, create("/a")), after=1) == []


@pytest.mark.parametrize("opcode", [OpCode.SET_ACL, OpCode.RECONFIG])
def test_paths_of_others(opcode: OpCode) -> None:
    bodies = {
        OpCode.SET_ACL: pack_string("/zookeeper") + OPEN_ACLS + struct.pack(">i", -1),
        OpCode.RECONFIG: pack_string("a") + pack_string("b") + pack_string("c") + struct.pack(">q", 0),
    }
    (row,) = run(client(opcode, bodies[opcode]))
    assert (row.path, row.bytes, row.mode) == ("/zookeeper" if opcode == OpCode.SET_ACL else None, 0, None)
