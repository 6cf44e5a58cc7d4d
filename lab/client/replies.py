"""Replies kept as they came, header and body, and a multi's results whatever they are. Pure."""

from typing import NamedTuple

from codec.client import Event, Stat, body, header, read_event, read_stat
from codec.constants import OpCode, Xid
from codec.jute import Reader
from codec.packets import REPLY_HEADER, read_multi_header


class Reply(NamedTuple):
    """A reply: its header and its body, and what the body says where it is of that kind."""

    xid: int
    zxid: int
    err: int
    body: bytes

    @property
    def stat(self) -> Stat:
        """The Stat of a reply to exists or setData."""
        return read_stat(Reader(self.body))

    @property
    def path(self) -> str:
        """The path of a reply to create."""
        return Reader(self.body).text()

    @property
    def data(self) -> bytes:
        """The data of a reply to getData."""
        return Reader(self.body).buffer() or b""

    @property
    def event(self) -> tuple[int, str]:
        """(type, path) of a watch event."""
        kind, path, _ = read_event(Reader(self.body))
        return kind, path


class Part(NamedTuple):
    """The result of one part of a multi: an error, or path and Stat where it has them."""

    error: int
    path: str | None = None
    stat: Stat | None = None


def reply_of(frame: bytes) -> Reply:
    """A reply; or an event, whose xid is -1."""
    return Reply(*header(frame), frame[REPLY_HEADER.size :])


def message_of(frame: bytes) -> Reply | Event:
    """A reply or an event."""
    found = reply_of(frame)
    return read_event(body(frame), found.zxid) if found.xid == Xid.NOTIFICATION else found


def parts_of(body: bytes) -> list[Part]:
    """The results of a multi's parts, be it successful or not."""
    reader, parts = Reader(body), list[Part]()
    while True:
        opcode, done, error = read_multi_header(reader)
        if done:
            return parts
        path = reader.text() if opcode in (OpCode.CREATE, OpCode.CREATE2) else None
        stat = read_stat(reader) if opcode in (OpCode.SET_DATA, OpCode.CREATE2) else None
        parts.append(Part(reader.int() if opcode == OpCode.ERROR else error, path, stat))
