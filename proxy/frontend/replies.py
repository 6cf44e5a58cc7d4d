"""The packets for one client, its replies and events, and how many bytes of them it has not read.

Pure.
"""

from typing import Protocol

from codec.constants import ErrorCode, KeeperState
from codec.errors import MalformedPacket
from proxy.frontend.limits import Limits
from proxy.frontend.wire import NARROW
from proxy.state.refusal import Refusal


class Machine(Protocol):
    """The state machine, as far as replies use it."""

    @property
    def zxid(self) -> int:
        """The zxid that it has reached."""


class Replies:
    """The packets for one client."""

    __slots__ = ("_limits", "_machine", "is_paused", "packets", "unsent", "wire")

    def __init__(self, machine: Machine, limits: Limits) -> None:
        self._machine = machine
        self._limits = limits
        self.wire = NARROW  # how requests and replies are wrapped; set before the first one is received
        self.packets: list[bytes] = []  # to be sent; always the same list
        self.is_paused = False  # the client does not read
        self.unsent = 0  # bytes of large replies that the client has not read, as far as is known

    @property
    def are_too_many(self) -> bool:
        """Whether so much is unsent that the connection has to be closed."""
        return self.unsent > self._limits.forced

    def add(self, xid: int, err: int, body: bytes = b"") -> None:
        """Answer a request, with the current zxid in the header."""
        self.packets.append(self.wire.frame(xid, self._machine.zxid, err, body))

    def add_at(self, zxid: int, xid: int, err: int, body: bytes = b"") -> None:
        """Answer a request with this zxid in the header."""
        self.packets.append(self.wire.frame(xid, zxid, err, body))

    def send(self, packet: bytes) -> None:
        """Send a packet that answers no request, after the replies so far."""
        self.packets.append(packet)

    def add_read(self, reply: bytes) -> None:
        """Answer a read; the reply may be large."""
        self.packets.append(reply)
        if len(reply) > self._limits.large_reply:
            self.unsent += len(reply)

    def add_event(self, kind: int, path: str, zxid: int) -> None:
        """Send a watch event. One for a client that does not read counts as unsent."""
        packet = self.wire.event(kind, KeeperState.SYNC_CONNECTED, path, zxid)
        if self.is_paused:
            self.unsent += len(packet)
            if self.are_too_many:
                return
        self.packets.append(packet)

    def refusal(self, xid: int, error: Refusal | MalformedPacket) -> bytes:
        """The reply to a read that fails."""
        zxid = self._machine.zxid
        if isinstance(error, Refusal):
            return self.wire.frame(xid, zxid, error.code, error.body)
        return self.wire.frame(xid, zxid, ErrorCode.MARSHALLING_ERROR)

    def sent(self) -> None:
        """The transport has all packets, or is about to get them."""
        if not self.is_paused:
            self.unsent = 0

    def pause(self) -> None:
        """The client does not read: make only replies that cannot wait."""
        self.is_paused = True

    def resume(self) -> None:
        """The client has read all that was sent."""
        self.is_paused = False
        self.unsent = 0
