"""Keeps packets of clients that must authenticate first, if the server demands it (AuthenticationHelper).

Pure.
"""

from collections import deque
from collections.abc import Sequence

from codec.constants import OpCode
from proxy.frontend.request_queue import RequestQueue
from proxy.frontend.waiting import Author


class AuthenticationGate:
    """Keeps the packets of one client until it has an identity that the server accepts."""

    __slots__ = ("_client", "_packets", "_queue", "_schemes")

    def __init__(self, client: Author, schemes: frozenset[str], queue: RequestQueue) -> None:
        """`schemes`: an identity of one of these is accepted. `queue` counts the packets, too."""
        self._client = client
        self._schemes = schemes
        self._queue = queue
        self._packets: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._packets)

    @property
    def is_open(self) -> bool:
        """Whether the client may be served."""
        return any(identity.scheme in self._schemes for identity in self._client.identities)

    @staticmethod
    def lets_pass(opcode: int) -> bool:
        """Whether a client may send this request while the gate is closed."""
        return opcode in (OpCode.AUTH, OpCode.SASL)

    def add(self, packets: Sequence[bytes]) -> None:
        """Keep packets, in their order."""
        self._packets += packets
        self._queue.count += len(packets)
        self._queue.size += sum(map(len, packets))

    def take(self) -> bytes:
        """Remove and return the first packet."""
        packet = self._packets.popleft()
        self._queue.count -= 1
        self._queue.size -= len(packet)
        return packet

    def take_all(self) -> list[bytes]:
        """Remove and return all packets."""
        return [self.take() for _ in range(len(self._packets))]
