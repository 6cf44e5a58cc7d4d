"""Lines that real ZooKeeper cannot be asked for: its own defects, Keeper's requests, hostile paths."""

import re
import struct

from codec import client as zk
from codec.constants import CreateMode, ErrorCode, KeeperOpCode, OpCode
from codec.jute import Acl, pack_string
from lab.fakes.connection import FakeHost, FakeLoop, connected
from lab.oracle.requests import body_of
from proxy.frontend import audit
from proxy.frontend.request_logs import RequestLogs, Stages
from proxy.state.auth.scheme import Identity
from proxy.state.ops import EXTENDED_PARTS
from tests.table import one_by_one

_HEAD = "session=0x1\tuser=joe,10.0.0.1\tip=10.0.0.1\t"
_USERS = (Identity("digest", "joe:hash="), Identity("super", ""), Identity("ip", "10.0.0.1"))


def lines(opcode: int, fields: object, err: int = 0, body: bytes = b"") -> list[str]:
    found = list(audit.of_request(1, _USERS, "10.0.0.1", opcode, fields, err, body))
    assert all(line.startswith(_HEAD) for line in found)
    return [line.removeprefix(_HEAD) for line in found]


@one_by_one(
    ("opcode", "fields", "err", "line"),
    [
        # ZooKeeper fails to write these two.
        (OpCode.CREATE, ("/x", b"", (), 9), 1, "operation=create znode=/x result=failure"),
        (OpCode.DELETE_CONTAINER, "/x", 1, "operation=delete znode=/x result=failure"),
        (KeeperOpCode.TRY_REMOVE, ("/x", -1), 0, "operation=delete znode=/x result=success"),
        (KeeperOpCode.REMOVE_RECURSIVE, ("/x", 9), 0, "operation=deleteRecursive znode=/x result=success"),
        (
            KeeperOpCode.CREATE_IF_NOT_EXISTS,
            ("/x", b"", (), 0),
            0,
            "operation=create znode=/x znode_type=persistent result=success",
        ),
        (OpCode.RECONFIG, (None, None), 1, "operation=reconfig result=failure"),
        (OpCode.DELETE, ("/x", -1), ErrorCode.CONNECTION_LOSS, "operation=delete znode=/x result=unknown"),
        # A path must not look like another field or another line.
        (
            OpCode.DELETE,
            ("/x\ty\n\u2028\x9b\u202e", -1),
            1,
            "operation=delete znode=/x\\u0009y\\u000a\\u2028\\u009b\\u202e result=failure",
        ),
        (
            OpCode.SET_ACL,
            ("/x", [Acl(31, "world", "anyone"), Acl(-1, "ip", "1.2.3.4"), Acl(32 + 4, "", "")], -1),
            1,
            "operation=setAcl znode=/x acl=world:anyone:cdrwaip:1.2.3.4:cdrwa::c result=failure",
        ),
        # Nor fill the disk: what is long is cut.
        (
            OpCode.DELETE,
            ("/" + "\n" * 9999, -1),
            1,
            "operation=delete znode=/" + "\\u000a" * 4095 + "... result=failure",
        ),
        (
            OpCode.SET_ACL,
            ("/x", [Acl(1, "ip", "1.2.3.4")] * 9999, -1),
            1,
            "operation=setAcl znode=/x acl=" + "ip:1.2.3.4:r" * 341 + "ip:1... result=failure",
        ),
        # What changes nothing or cannot be read has no line.
        (OpCode.SYNC, "/x", 1, ""),
        (OpCode.CREATE, None, 1, ""),
        (KeeperOpCode.CHECK_STAT, ("/x", 1, None), 1, ""),
        (OpCode.CLOSE_SESSION, None, 1, ""),
    ],
)
def test_one_request(opcode: int, fields: object, err: int, line: str) -> None:
    assert lines(opcode, fields, err, pack_string("/x")) == ([line.replace(" ", "\t")] if line else [])


def test_a_multi_that_failed_is_one_line() -> None:
    error = struct.pack(">ibi", -1, 0, -101) + struct.pack(">i", -101)
    parts = [(EXTENDED_PARTS[OpCode.DELETE], ("/x", -1))]
    failed = ["operation=multiOperation\tresult=failure"]
    assert lines(OpCode.MULTI, parts, 0, error + struct.pack(">ibi", -1, 1, -1)) == failed
    assert lines(OpCode.MULTI, None, ErrorCode.MARSHALLING_ERROR) == failed


# The path of each part, and its line if it has one, where the node /there exists. A new part needs both.
_MADE = "operation=create znode=/new znode_type={} result=success"
_DELETED = "operation={} znode=/there result=success"
PARTS: dict[int, tuple[str, str]] = {
    OpCode.CREATE: ("/new", _MADE.format("persistent")),
    OpCode.CREATE2: ("/new", "operation=create znode=/new result=success"),
    OpCode.CREATE_CONTAINER: ("/new", _MADE.format("container")),
    OpCode.CREATE_TTL: ("/new", "operation=create znode=/new result=success"),
    OpCode.DELETE: ("/there", _DELETED.format("delete")),
    OpCode.SET_DATA: ("/there", _DELETED.format("setData")),
    OpCode.CHECK: ("/there", ""),
    KeeperOpCode.CHECK_NOT_EXISTS: ("/new", ""),
    KeeperOpCode.CREATE_IF_NOT_EXISTS: ("/new", _MADE.format("persistent")),
    KeeperOpCode.REMOVE_RECURSIVE: ("/there", _DELETED.format("deleteRecursive")),
    KeeperOpCode.CHECK_STAT: ("/there", ""),
    KeeperOpCode.TRY_REMOVE: ("/there", _DELETED.format("delete")),
}


def test_each_part_that_a_multi_may_have_is_known_here() -> None:
    assert set(PARTS) == set(EXTENDED_PARTS)


@one_by_one("opcode", EXTENDED_PARTS)
def test_what_the_results_of_a_multi_hold_is_known_to_the_log(opcode: OpCode | KeeperOpCode) -> None:
    """The name of the sequential node is in the reply alone, behind the result of the part before it."""
    host = FakeHost(FakeLoop())
    found: list[str] = []
    host.request_logs = RequestLogs(
        user="me",
        write_audit=found.append,
        slow_ms=0,
        stages=lambda: Stages(0, 0),
        deleted_ephemerals=tuple,
        clock=lambda: 0,
        writes=frozenset(),
        rest=lambda: None,
    )
    client = connected(host)
    client.send(zk.packet(1, zk.create("/there")))
    client.commit()
    path, line = PARTS[opcode]
    part = zk.Request(opcode, body_of(opcode, path=path), zk.nothing)
    after = zk.create("/after-", b"", CreateMode.EPHEMERAL_SEQUENTIAL)
    client.send(zk.packet(2, zk.multi([part, after])))
    client.commit()
    assert client.outcomes() == [(1, 0), (2, 0)]
    each_line = "\n".join(found).split("\n")
    *lines, last = [each.partition("\tip=10.0.0.7\t")[2].replace("\t", " ") for each in each_line[1:]]
    assert lines == [*filter(None, [line])]
    assert re.fullmatch(
        "operation=create znode=/after-[0-9]{10} znode_type=ephemeral_sequential result=success", last
    )
    assert not client.transport.is_closed()


def test_the_server_and_ended_sessions() -> None:
    """Without a user of ZooKeeper's: these are the server's own, or a client's that proved nothing."""
    head = "session=0x5\tuser=bob\\u000auser=root\tip=10.0.0.7"
    line = audit.of_refusal(5, "bob\nuser=root", "10.0.0.7", "sasl")
    assert line == f"{head}\toperation=authenticate\tscheme=sasl\tresult=failure"
    assert audit.of_server("zketcd", "serverStop") == "user=zketcd\toperation=serverStop\tresult=success"
    assert list(audit.of_session_end("zketcd", -1, ["/a", "/b"])) == [
        "session=0xffffffffffffffff\tuser=zketcd\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire"
        f"\tznode={path}\tresult=success"
        for path in ("/a", "/b")
    ]


def test_a_user_of_the_console_is_named() -> None:
    users = (Identity("digest", "joe:hash="), Identity(audit.CONSOLE, "amy"))
    (line,) = audit.of_request(1, users, "10.0.0.1", OpCode.DELETE, ("/x", -1), 0, b"")
    assert "user=joe,console:amy\t" in line


def test_users_whose_names_are_long_are_cut_and_digest_users_first() -> None:
    """A multi of 45,000 parts had 7 kB of names in each of its lines."""
    chosen = [Identity("digest", f"{number}{'u' * 1000}:hash") for number in range(7)]
    proven = Identity("sasl", "bob")
    (line,) = audit.of_request(1, (*chosen, proven), "10.0.0.7", OpCode.DELETE, ("/a", -1), 0, b"")
    user = line.split("\t")[1]
    assert user.startswith("user=bob,0uuu")
    assert user.endswith("u...")
    assert len(user) == len("user=") + 256 + len("...")
