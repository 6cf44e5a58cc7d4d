"""The log of slow requests: which are in it, and where their time went."""

import logging
from functools import partial
from itertools import pairwise
from unittest import mock

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import INT, Acl, pack_acls, pack_string
from codec.packets import MULTI_HEADER
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.observer import Observer
from proxy.frontend.request_logs import RequestLogs, Stages
from proxy.frontend.requests import Write
from proxy.state.capture import new_machine
from proxy.state.ops import EXTENDED
from proxy.state.ops.multi import END_OF_PARTS
from proxy.support.latency import ConnectionLatency, Latency

_MS = 1_000_000
CLIENT = ClientInfo("10.0.0.1", 5)


class Logs:
    """A server's logs at a time of the test's choice."""

    def __init__(self, slow_ms: int = 100, *, audits: bool = True) -> None:
        self.now = 0
        self.stages = Stages(0, 0)
        self.audited: list[str] = []
        self.records = 0
        self.rests: list[int] = []  # lines before each rest
        self.logs = RequestLogs(
            user="me",
            write_audit=self.audit if audits else None,
            slow_ms=slow_ms,
            stages=lambda: self.stages,
            deleted_ephemerals=lambda: ["/e"],
            clock=lambda: self.now * _MS,
            writes=frozenset(EXTENDED.writes),
            rest=self.rest,
        )

    def audit(self, lines: str) -> None:
        self.records += 1
        self.audited += lines.split("\n")

    def rest(self) -> None:
        self.rests.append(len(self.audited))

    def write(self, opcode: int, fields: object, received: int, sent: int, applying: int, now: int) -> None:
        self.stages = Stages(sent * _MS, applying * _MS)
        self.now = now
        write = Write(lambda *_: None, CLIENT, 1, opcode, b"", 0, fields, received * _MS)
        self.logs.outcome(CLIENT, write, 0, b"\0\0\0\2/x")


@pytest.mark.parametrize(
    ("opcode", "fields", "times", "text"),
    [
        (
            OpCode.DELETE,
            ("/x", -1),
            (1000, 1030, 1090, 1100),
            "DELETE '/x' took 100 ms: waiting 30, append 60, apply 10",
        ),
        (OpCode.MULTI, None, (0, 0, 0, 500), "MULTI took 500 ms: waiting 0, append 0, apply 500"),
        # Refused without an entry of its own: the stages are those of an earlier one.
        (OpCode.SYNC, "/", (1000, 10, 20, 1200), "SYNC '/' took 200 ms: waiting 0, append 0, apply 200"),
    ],
)
def test_a_slow_write(
    caplog: pytest.LogCaptureFixture, opcode: int, fields: object, times: tuple[int, int, int, int], text: str
) -> None:
    Logs().write(opcode, fields, *times)
    assert caplog.messages == [f"slow request: session 0x5 from 10.0.0.1: {text}"]


@pytest.mark.parametrize(("slow_ms", "now"), [(100, 1099), (0, 11_000)])
def test_a_fast_write_is_not_told_and_without_a_limit_none_is_slow(
    slow_ms: int, now: int, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(slow_ms)
    logs.write(OpCode.DELETE, ("/x", -1), 1000, 1030, 1090, now)
    assert caplog.messages == []


def test_reads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    latency = ConnectionLatency(Latency({OpCode.GET_DATA: False, OpCode.CREATE: True}))
    for slow_ms in (100, 0):
        for now, opcode in ((99, OpCode.GET_DATA), (900, OpCode.CREATE), (200, OpCode.GET_DATA)):
            clock = partial(int, now * _MS)
            observer = Observer(CLIENT, latency, new_machine(0), clock, Logs(slow_ms).logs)
            observer.note_run(opcode, 3, 1, 0)  # the write is logged with its outcome
    assert latency.count == 18
    assert [message.partition(": session 0x5 from 10.0.0.1: ")[2] for message in caplog.messages] == [
        "GET_DATA (3 together) took 200 ms: waiting or reading"
    ]


@pytest.mark.parametrize("audits", [True, False])
def test_the_end_of_a_session_is_audited_with_its_ephemerals(audits: bool) -> None:
    logs = Logs(audits=audits)
    logs.write(OpCode.CLOSE_SESSION, None, 0, 0, 0, 0)
    logs.logs.session_ended(6)
    logs.logs.session_ended(6, "amy\tfrom 10.0.0.1")
    logs.logs.server("serverStop")
    ended = "ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e"
    assert [line.rpartition("operation=")[2] for line in logs.audited] == [
        f"{operation}\tresult=success"
        for operation in (ended, ended, "killSession", ended, "serverStop")
        if audits
    ]


def test_a_long_acl_is_audited_although_it_was_decoded_only_when_it_was_applied() -> None:
    logs = Logs()
    acl = [Acl(1, "ip", f"10.0.{number >> 8}.{number & 255}") for number in range(3000)]
    body = pack_string("/x") + pack_acls(acl) + INT.pack(-1)
    for packet, lines in ((body, 1), (body[:-9], 0)):
        write = Write(lambda *_: None, CLIENT, 1, OpCode.SET_ACL, packet, 0, None, 0)
        logs.audited.clear()
        logs.logs.outcome(CLIENT, write, 0, b"")
        assert len(logs.audited) == lines
        assert all("znode=/x\tacl=ip:10.0.0.0:rip:10.0.0.1:r" in line for line in logs.audited)


@pytest.mark.parametrize(
    ("opcode", "operation"),
    [(OpCode.SET_ACL, "setAcl\tznode=/x\tacl="), (OpCode.CREATE2, "create\tznode=/x")],
)
def test_a_long_acl_that_was_refused_is_not_decoded_again(opcode: int, operation: str) -> None:
    """Nothing could rest meanwhile: an ACL of 28,000 entries took 100 ms."""
    logs = Logs()
    data = INT.pack(0) if opcode == OpCode.CREATE2 else b""
    body = pack_string("/x") + data + pack_acls([Acl(1, "ip", "10.0.0.1")] * 3000) + INT.pack(0)
    write = Write(lambda *_: None, CLIENT, 1, opcode, body, 0, None, 0)
    decode = mock.Mock()
    row = EXTENDED.writes[opcode]._replace(decode=decode)
    with mock.patch.dict(EXTENDED.writes, {opcode: row}):
        logs.logs.outcome(CLIENT, write, ErrorCode.NO_NODE, b"")
    assert decode.call_count == 0
    (line,) = logs.audited
    assert line.endswith(f"operation={operation}\tresult=failure")


def _multi(parts: int) -> tuple[Write, bytes]:
    """A multi of deletes, which was decoded only when it was applied, and its reply."""
    delete = MULTI_HEADER.pack(OpCode.DELETE, False, -1) + pack_string("/x") + INT.pack(-1)
    write = Write(lambda *_: None, CLIENT, 1, OpCode.MULTI, delete * parts + END_OF_PARTS, 0, None, 0)
    return write, MULTI_HEADER.pack(OpCode.DELETE, False, 0) * parts + END_OF_PARTS


def test_the_lines_of_a_long_multi_leave_time_for_other_work() -> None:
    logs = Logs()
    write, reply = _multi(5000)
    logs.logs.outcome(CLIENT, write, 0, reply)
    assert len(logs.audited) == 5000
    assert all("operation=delete\tznode=/x\tresult=success" in line for line in logs.audited)
    lines = [later - before for before, later in pairwise(logs.rests)]
    assert max(lines) <= 64
    assert sum(lines) > 4900
    assert logs.records == -(-5000 // 64), "a record for each line took ten times as long as all else"


def test_a_long_multi_that_was_not_applied_has_one_line_and_no_rest() -> None:
    """Nothing is applied at that moment, so there is nothing that could rest."""
    logs = Logs()
    write, _ = _multi(5000)
    logs.logs.outcome(CLIENT, write, ErrorCode.SYSTEM_ERROR, b"")
    assert [line.rpartition("operation=")[2] for line in logs.audited] == ["multiOperation\tresult=failure"]
    assert logs.rests == []
