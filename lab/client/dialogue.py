"""A client's side of one connection without I/O: what is sent, and what the server's bytes say. Pure.

The shells `session` (asyncio) and `blocking` (a socket) keep the requests in flight themselves: one gives
futures, the other returns the replies in the order in which they come. Only `session` pings.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from codec.constants import ErrorCode, OpCode
from codec.framing import Framer
from codec.jute import Reader
from codec.packets import read_multi_header
from lab.client import requests as zk

_MAX_FRAME = 1 << 30
NO_SESSION = zk.Connected(0, bytes(16), 0)


class ZooKeeperError(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(f"{what}: {zk.name_of(code)}")
        self.code = code


class MultiFailed(ZooKeeperError):
    """A multi was refused. `failed` is the number of the first part that failed, `code` its error."""

    def __init__(self, codes: Sequence[int], what: str) -> None:
        self.failed = next((number for number, code in enumerate(codes) if code), 0)
        super().__init__(codes[self.failed], f"part {self.failed} of a {what}")
        self.codes = codes


class Dialogue:
    """One connection."""

    def __init__(self, xids: Iterator[int] | None = None) -> None:
        """`xids`: the numbers of the session's requests, if an earlier connection has used some."""
        self.granted: zk.Connected | None = None
        """The answer to the connect request, once it has come."""
        self._framer = Framer(_MAX_FRAME)
        self._xids = count(1) if xids is None else xids

    def request(self, request: zk.Request[Any], *, watch: bool = False) -> tuple[int, bytes]:
        """The next request: its xid, and what to send."""
        xid = next(self._xids)
        return xid, zk.packet(xid, request, watch=watch)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames of replies and events that `data` completes. Raises MalformedPacket."""
        frames = self._framer.feed(data)
        if frames and self.granted is None:
            self.granted = zk.connected(frames.pop(0))
        return frames


def answer_of(request: zk.Request[Any], error: int, body: Reader) -> Any:
    """What a reply says. Raises ZooKeeperError, MultiFailed, or MalformedPacket."""
    what = f"{request.opcode.name} {request.path}".rstrip()
    if error == ErrorCode.NO_NODE and request.none_if_missing:
        return None
    if request.opcode == OpCode.MULTI and body.remaining:
        # Its header has no error: the parts have, all of them if one failed.
        opcode, done, _ = read_multi_header(Reader(body.data, body.position))
        if opcode == OpCode.ERROR and not done:
            raise MultiFailed(zk.multi_errors(body), what)
    if error:
        raise ZooKeeperError(error, what)
    return request.read(body)
