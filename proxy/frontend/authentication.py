"""What the identities that a client has proved mean for its requests. Pure: `identity` proves them.

Without one, a client may not be served at all. With very many, an ACL may stand for too many bytes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

from codec.constants import OpCode
from codec.jute import INT
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.requests import RequestQueue
from proxy.state.auth.schemes import SCHEMES
from schema.entry import Identities

_AUTH = INT.pack(4) + b"auth"
_AUTH_ENTRY = 16  # bytes of such an entry in a request


class SaslAnswer(NamedTuple):
    """The answer to one token of SASL. With an error it is the last packet of the connection."""

    err: int
    token: bytes | None
    is_sent: bool = True  # False: the connection ends without it


class Authentication(NamedTuple):
    """How a client proves identities."""

    #: Adds the identities that an auth packet proves, whose body begins at this position. False if it proves
    #: none, None if it is cut.
    prove: Callable[[bytes, int], bool | None]
    #: Answers a token of SASL; None if `Order.negotiated` gets the answer later.
    negotiate: Callable[[bytes], SaslAnswer | None]


class Unproven:
    """Keeps packets of a client that must authenticate first (AuthenticationHelper), until it has."""

    __slots__ = ("_client", "_packets", "_queue", "_schemes")

    def __init__(self, client: ClientInfo, schemes: frozenset[str], queue: RequestQueue) -> None:
        """`schemes`: an identity of one of these is accepted. `queue` counts the packets, too."""
        self._client = client
        self._schemes = schemes
        self._queue = queue
        self._packets: deque[tuple[bytes, int]] = deque()  # and when each was received

    def __len__(self) -> int:
        return len(self._packets)

    @property
    def is_proven(self) -> bool:
        """Whether the client may be served."""
        return any(identity.scheme in self._schemes for identity in self._client.identities)

    @staticmethod
    def may_send(opcode: int) -> bool:
        """Whether a client may send this request before it has proven an identity."""
        return opcode in (OpCode.AUTH, OpCode.SASL)

    def add(self, packets: Sequence[bytes], received: int) -> None:
        """Keep packets of a chunk, in their order."""
        self._packets += zip(packets, repeat(received))
        self._queue.count_kept(len(packets), sum(map(len, packets)))

    def take(self) -> tuple[bytes, int]:
        """Remove and return the first packet, and when it was received."""
        packet, received = self._packets.popleft()
        self._queue.count_kept(-1, -len(packet))
        return packet, received

    def take_all(self) -> list[tuple[bytes, int]]:
        """Remove and return all of them."""
        return [self.take() for _ in range(len(self._packets))]


class AuthEntries:
    """Whether the ACLs of a client's writes get too many bytes of identities for `auth`.

    Each `auth` stands for all identities that the client has proved, at every proxy, and in every snapshot.
    """

    __slots__ = ("_identities", "_least", "_per_byte", "_size")

    def __init__(self, least: int, per_byte: int) -> None:
        """A write may get `least` bytes, and `per_byte` times its own."""
        self._least = least
        self._per_byte = per_byte
        self._identities: Identities = ()
        self._size = 0  # bytes of what one `auth` stands for

    def are_too_much(self, packet: bytes, identities: Identities) -> bool:
        """Whether those in this write are."""
        if identities is not self._identities:
            self._identities, self._size = identities, size_for_auth(identities)
        # Few short identities are never too much: then even a write of 1 MiB need not be searched.
        return (
            self._size > self._per_byte * _AUTH_ENTRY
            and self._size * len(packet) // _AUTH_ENTRY > self._least
            and self._size * packet.count(_AUTH) > max(self._least, self._per_byte * len(packet))
        )


def size_for_auth(identities: Identities) -> int:
    """Characters of what an entry of an ACL with `auth` stands for."""
    return sum(
        len(scheme) + len(name)
        for scheme, name in identities
        if (known := SCHEMES.get(scheme)) is not None and known.proves
    )
