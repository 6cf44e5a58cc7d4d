"""What came of each request, from a machine that executes it."""

import pytest

from codec.constants import OpCode
from lab.oracle.requests import (
    EPHEMERAL_SEQUENTIAL,
    SEQUENTIAL,
    Check,
    CloseSession,
    Create,
    CreateContainer,
    CreateIfNotExists,
    Delete,
    Multi,
    Reconfig,
    RemoveRecursive,
    SetAcl,
    SetData,
    Sync,
    encode_body,
    opcode,
)
from lab.oracle.requests import Request as Asked
from pipeline.traffic.outcomes import Recorder
from pipeline.traffic.table import TrafficRow
from proxy.log.load.replay import Place
from proxy.state import capture
from schema.entry import Entry, Identity, Kind, Request, Rules, encode_close, encode_node_due
from tests.pipeline.traffic.rows import traffic
from tests.proxy.log.trees import opened


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


def client(asked: Asked, session: int = 1) -> Request:
    identities = (Identity("ip", "10.0.0.1"),)
    return Request(Kind.CLIENT, session, opcode(asked), identities, encode_body(asked))


def test_what_is_known_of_a_create() -> None:
    (row,) = run(client(Create("/a", b"xyz")))
    size = len(encode_body(Create("/a", b"xyz")))
    plain = traffic("create", "/a", bytes=3, size=size, grown=5, identities=("ip:10.0.0.1",))
    assert row == plain._replace(time=5, zxid=2, position=9, request=1)


def test_sequential_nodes_have_the_paths_that_they_got() -> None:
    rows = run(
        client(Create("/n-", flags=SEQUENTIAL, with_stat=True)),
        client(
            Multi(
                (
                    Create("/n-0000000009"),
                    Create("/n-", flags=SEQUENTIAL),
                    SetData("/n-0000000009", b"12"),
                    Create("/n-", flags=EPHEMERAL_SEQUENTIAL),
                )
            )
        ),
        client(CloseSession()),
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
        client(Delete("/no")),
        client(Multi((Create("/a"), Check("/no", 3), Create("/s", flags=SEQUENTIAL)))),
        client(Multi(())),
        client(Create("/a"), session=77),
        Request(Kind.CLIENT, 1, OpCode.CREATE, (), b"rubbish"),
        client(Sync("/a")),
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
        client(CreateIfNotExists("/k", b"1")),
        client(CreateIfNotExists("/k", b"1")),
        client(Create("/k/below")),
        client(RemoveRecursive("/k", 100)),
        client(CreateContainer("/c")),
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
    assert run(client(Create("/a")), after=1) == []


@pytest.mark.parametrize("asked", [SetAcl("/zookeeper"), Reconfig("a", "b", "c", 0)])
def test_paths_of_others(asked: SetAcl | Reconfig) -> None:
    (row,) = run(client(asked))
    assert (row.path, row.bytes, row.mode) == (getattr(asked, "path", None), 0, None)
