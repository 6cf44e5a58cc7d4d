"""Lines that real ZooKeeper cannot be asked for: its own defects, Keeper's requests, hostile paths."""

import struct

import pytest

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.jute import pack_string
from proxy.frontend import audit
from proxy.state.auth.scheme import Identity
from proxy.state.ops.multi import KINDS

_HEAD = "session=0x1\tuser=joe,10.0.0.1\tip=10.0.0.1\t"
_USERS = (Identity("digest", "joe:hash="), Identity("super", ""), Identity("ip", "10.0.0.1"))


def lines(opcode: int, fields: object, err: int = 0, body: bytes = b"") -> list[str]:
    found = list(audit.of_request(1, _USERS, "10.0.0.1", opcode, fields, err, body))
    assert all(line.startswith(_HEAD) for line in found)
    return [line.removeprefix(_HEAD) for line in found]


@pytest.mark.parametrize(
    ("opcode", "fields", "err", "body", "line"),
    [
        # ZooKeeper fails to write these two.
        (OpCode.CREATE, ("/x", b"", (), 9), 1, b"", "operation=create\tznode=/x\tresult=failure"),
        (OpCode.DELETE_CONTAINER, "/x", 1, b"", "operation=delete\tznode=/x\tresult=failure"),
        (KeeperOpCode.TRY_REMOVE, ("/x", -1), 0, b"", "operation=delete\tznode=/x\tresult=success"),
        (
            KeeperOpCode.REMOVE_RECURSIVE,
            ("/x", 9),
            0,
            b"",
            "operation=deleteRecursive\tznode=/x\tresult=success",
        ),
        (
            KeeperOpCode.CREATE_IF_NOT_EXISTS,
            ("/x", b"", (), 0),
            0,
            pack_string("/x"),
            "operation=create\tznode=/x\tznode_type=persistent\tresult=success",
        ),
        (OpCode.RECONFIG, (None, None), 1, b"", "operation=reconfig\tresult=failure"),
        (
            OpCode.DELETE,
            ("/x", -1),
            ErrorCode.CONNECTION_LOSS,
            b"",
            "operation=delete\tznode=/x\tresult=unknown",
        ),
        # A path must not look like another field or another line.
        (
            OpCode.DELETE,
            ("/x\tresult=success\n\u2028", -1),
            1,
            b"",
            "operation=delete\tznode=/x\\u0009result=success\\u000a\\u2028\tresult=failure",
        ),
    ],
)
def test_one_request(opcode: int, fields: object, err: int, body: bytes, line: str) -> None:
    assert lines(opcode, fields, err, body) == [line]


@pytest.mark.parametrize(
    ("opcode", "fields"),
    [
        (OpCode.SYNC, "/x"),
        (OpCode.CREATE, None),
        (KeeperOpCode.CHECK_STAT, ("/x", 1, None)),
        (OpCode.CLOSE_SESSION, None),
    ],
)
def test_what_changes_nothing_or_cannot_be_read_has_no_line(opcode: int, fields: object) -> None:
    assert lines(opcode, fields, 1) == []


def test_a_multi_that_failed_is_one_line() -> None:
    error = struct.pack(">ibi", -1, 0, -101) + struct.pack(">i", -101)
    parts = [(KINDS[OpCode.DELETE], ("/x", -1))]
    failed = ["operation=multiOperation\tresult=failure"]
    assert lines(OpCode.MULTI, parts, 0, error + struct.pack(">ibi", -1, 1, -1)) == failed
    assert lines(OpCode.MULTI, None, ErrorCode.MARSHALLING_ERROR) == failed


def test_an_authentication_that_failed() -> None:
    line = audit.of_refusal(5, "bob\nuser=root", "10.0.0.7", "sasl")
    head = "session=0x5\tuser=bob\\u000auser=root\tip=10.0.0.7"
    assert line == f"{head}\toperation=authenticate\tscheme=sasl\tresult=failure"


def test_the_server_and_ended_sessions() -> None:
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
