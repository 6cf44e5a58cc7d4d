"""Sessions recorded from a real ZooKeeper (record.py): declarations and twins read and write its bytes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from codec import packets
from codec.constants import ErrorCode, EventType, OpCode, Xid
from codec.jute import Reader, pack_buffer
from lab import records
from tests.codec.generate import plain
from tests.codec.test_packets import TWINS, declared

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.txt"))


class Message(NamedTuple):
    """A frame: whether the client sent it, its request's type (None for an event), header, body."""

    sent: bool
    kind: OpCode | None
    frame: bytes
    header: Any
    body: bytes


def frames(path: Path) -> Iterator[tuple[bool, bytes]]:
    """The frames of a recorded session in order, True for those that the client sent."""
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            yield line.startswith(">"), bytes.fromhex(line[2:])


def messages(path: Path) -> Iterator[Message]:
    """The frames behind the handshake, each reply with the type of its request."""
    asked: dict[int, OpCode] = {}
    seen = {True: 0, False: 0}
    for sent, frame in frames(path):
        seen[sent] += 1
        if seen[sent] == 1:
            continue
        if sent:
            header = records.decode(records.RequestHeader, frame)
            asked[header.xid] = kind = OpCode(header.type)
            yield Message(True, kind, frame, header, frame[8:])
        else:
            header = records.decode(records.ReplyHeader, frame)
            known = None if header.xid == Xid.NOTIFICATION else asked[header.xid]
            yield Message(False, known, frame, header, frame[16:])


ALL = pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)


@ALL
def test_the_handshake(path: Path) -> None:
    session = list(frames(path))
    request = next(frame for sent, frame in session if sent)
    response = next(frame for sent, frame in session if not sent)
    assert records.encode(records.ConnectRequest, records.decode(records.ConnectRequest, request)) == request
    answer = records.decode(records.ConnectResponse, response)
    assert records.encode(records.ConnectResponse, answer) == response
    asked = packets.decode_connect(request)
    assert (asked.read_only is None) == (answer.readOnly is None)
    ours = packets.encode_connect_response(answer.timeOut, answer.sessionId, answer.passwd, answer.readOnly)
    assert ours == pack_buffer(response)


@ALL
def test_every_message_decodes_and_encodes_to_the_same_bytes(path: Path) -> None:
    for message in messages(path):
        if message.sent:
            assert message.kind is not None
            record = records.REQUESTS[message.kind]
        elif message.kind is None:
            record = records.WatcherEvent
        elif message.header.err != ErrorCode.OK:
            record = records.Nothing
        else:
            record = records.RESPONSES[message.kind]
        assert records.encode(record, records.decode(record, message.body)) == message.body, message


@ALL
def test_the_twins_read_and_write_the_same(path: Path) -> None:
    for message in messages(path):
        header = message.header
        if message.sent:
            opcode = header.type
            if opcode in TWINS:
                assert TWINS[opcode].decode(message.frame, 8) == declared(opcode, message.body)
        elif message.kind is None:
            event = records.decode(records.WatcherEvent, message.body)
            ours = packets.encode_event(event.type, event.state, event.path, header.zxid)
            assert ours == pack_buffer(message.frame)
        else:
            ours = packets.frame(header.xid, header.zxid, header.err, message.body)
            assert ours == pack_buffer(message.frame)


def test_the_recordings_hold_every_operation_and_event() -> None:
    found = [message for path in FIXTURES for message in messages(path)]
    kinds = {message.kind for message in found if message.sent}
    # Outside a multi a check is refused; SASL and a reconfiguration need a server set up for them.
    assert kinds >= set(records.REQUESTS) - {OpCode.CHECK, OpCode.SASL}
    events = {
        records.decode(records.WatcherEvent, message.body).type
        for message in found
        if not message.sent and message.kind is None
    }
    assert events >= {kind for kind in EventType if 1 <= kind <= 4}


def test_multis_are_walked_by_the_twins() -> None:
    walked = 0
    for message in (message for path in FIXTURES for message in messages(path)):
        if not (message.sent and message.kind == OpCode.MULTI):
            continue
        reader = Reader(message.body)
        for element in records.decode(records.MultiOperationRecord, message.body).operations:
            kind, done, err = packets.read_multi_header(reader)
            assert {"type": kind, "done": done, "err": err} == plain(element.header)
            if not done:
                read = TWINS[kind].read
                assert read is not None
                assert read(reader)[0] == element.body.path
                walked += 1
        assert reader.remaining == 0
    assert walked > 8
