"""A TCP relay before a server that notes which operations its clients ask for.

Here: the client's bytes as far as opcodes go, for ZooKeeper's protocol and Keeper's with 64-bit xids. Not
here: replies, and what they mean.
"""

from collections import Counter
from collections.abc import Callable

from typing_extensions import override

from codec.constants import OpCode, ProtocolVersion, Xid
from codec.framing import Framer
from codec.jute import INT
from codec.keeper import WIDE_REQUEST_HEADER, OpeningFramer
from codec.packets import REQUEST_HEADER, decode_path_watch
from lab.oracle import requests
from lab.oracle.wire import Cursor
from lab.servers.link import Link

_MOST = 1 << 24


class Relay(Link):
    """Relays connections to 127.0.0.1:`port`, until it is closed."""

    def __init__(self, port: int) -> None:
        self.opcodes: Counter[int] = Counter()  # parts of multi and multiRead are counted as well
        self.read: set[str] = set()  # paths of getData
        self.versions: list[int] = []  # of the handshakes, in order
        self.most_in_flight = 0  # requests of one connection without a reply
        super().__init__(port)

    @override
    def listeners(self) -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
        notes = _Notes(self)
        return notes.note, notes.answered


class _Notes:
    """What one client asks for."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._framer = OpeningFramer(_MOST)
        self._header = REQUEST_HEADER
        self._greeted = False
        self._replies = Framer(_MOST)
        self._sent = 0
        self._answered = 0

    def note(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._sent += 1
            self._relay.most_in_flight = max(self._relay.most_in_flight, self._sent - self._answered)
            if not self._greeted:
                (version,) = INT.unpack_from(frame)
                self._relay.versions.append(version)
                traced_wide = version == ProtocolVersion.TRACING and frame[INT.size]
                if version == ProtocolVersion.WIDE_XIDS or traced_wide:
                    self._header = WIDE_REQUEST_HEADER
                self._greeted = True
                continue
            _, opcode = self._header.unpack_from(frame)
            self._relay.opcodes[opcode] += 1
            if opcode == OpCode.GET_DATA:
                self._relay.read.add(decode_path_watch(frame, self._header.size)[0])
            elif opcode in (OpCode.MULTI, OpCode.MULTI_READ):
                parts = requests.decode_body(opcode, Cursor(frame[self._header.size :])).ops
                self._relay.opcodes.update(map(requests.opcode, parts))

    def answered(self, data: bytes) -> None:
        for frame in self._replies.feed(data):
            xid = int.from_bytes(frame[: self._header.size - INT.size], signed=True)
            if xid != Xid.NOTIFICATION:
                self._answered += 1
