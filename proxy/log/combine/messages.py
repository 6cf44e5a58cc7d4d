"""What a proxy and the combiner send each other. Pure.

Each end first sends GREETING and a nonce. From then on it sends messages: size, tag, body. The tag is a
keyed hash of the message's place and body; its key comes from the combiner's secret, which lies in etcd, and
from both nonces. So who cannot read the tree's keys in etcd cannot send anything, and a message cannot be
changed, repeated, left out or sent back.

The proxy's first message is a Hello, the combiner's an empty one. Then the proxy sends entries, and the
combiner the numbers of those that it could not append, and now and then a Mode.
"""

from hashlib import blake2b
from hmac import compare_digest
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from schema.keys import LAST_NUMBER

#: Bytes of an entry that is combined. Larger ones gain nothing, and make others wait.
MOST_BYTES = 64 << 10
GREETING = b"zketcd combine 1\n"
NONCE = 16  # bytes

_TAG = 16  # bytes
_HEAD = Struct(">I16s")
_REVISION = Struct(">q")
_NUMBER = Struct(">Q")
_MODE = _NUMBER.pack(0)  # in place of an entry's number
_MOST = MOST_BYTES + _NUMBER.size  # bytes of a body
_MOST_OF_HELLO = 256  # and of the first one, of which nothing is known before it is complete


class BadMessage(Exception):
    """The other end does not know the secret, or does not keep to the rules."""


class Hello(NamedTuple):
    """Whose entries the connection has."""

    revision: int  # at which the proxy's key was put
    incarnation: str

    def encode(self) -> bytes:
        """Its bytes."""
        return _REVISION.pack(self.revision) + self.incarnation.encode()


def decode_hello(body: bytes) -> Hello:
    """Raises BadMessage."""
    try:
        return Hello(_REVISION.unpack_from(body)[0], body[_REVISION.size :].decode())
    except (StructError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a hello: {error}") from None


class Mode(NamedTuple):
    """How the combiner wants entries appended: together, by it, or by each proxy."""

    together: bool = True  # now, be it for a trial
    usually: bool = True

    def encode(self) -> bytes:
        """Its bytes."""
        return _MODE + bytes(self)


def decode_answer(body: bytes) -> Mode | int:
    """What the combiner sends: a mode, or the number of an entry that it refuses. Raises BadMessage."""
    if body.startswith(_MODE):
        return Mode(*map(bool, body[len(_MODE) : len(_MODE) + 2]))
    return decode_entry(body)[0]


def encode_entry(number: int, value: bytes) -> bytes:
    """An entry of the connection's proxy."""
    return _NUMBER.pack(number) + value


def decode_entry(body: bytes) -> tuple[int, bytes]:
    """The number and the value. Raises BadMessage."""
    try:
        (number,) = _NUMBER.unpack_from(body)
    except StructError as error:
        raise BadMessage(f"not an entry: {error}") from None
    if not 0 < number <= LAST_NUMBER:
        raise BadMessage(f"no entry has the number {number}")
    return number, body[_NUMBER.size :]


class SignedMessages:
    """The messages of one connection, at one of its ends: signs what is sent, and verifies what comes."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        """`nonce`: NONCE random bytes, for this connection only."""
        self._secret = secret
        self._nonce = nonce
        self._buffer = bytearray()
        self._keys: tuple[bytes, bytes] | None = None  # of what is sent, and of what comes
        self._sent = self._received = 0

    def greeting(self) -> bytes:
        """What this end sends first."""
        return GREETING + self._nonce

    @property
    def is_greeted(self) -> bool:
        """Whether the other end's greeting is here, so that messages can be signed."""
        return self._keys is not None

    def sign(self, body: bytes) -> bytes:
        """The message with this body, to be sent next."""
        assert self._keys is not None
        self._sent += 1
        return _HEAD.pack(len(body), _tag(self._keys[0], self._sent, body)) + body

    def verify(self, data: bytes) -> list[bytes]:
        """The bodies of the messages that are complete now. Raises BadMessage."""
        buffer = self._buffer
        buffer += data
        start = 0
        if self._keys is None:
            start = len(GREETING) + NONCE
            if buffer[: len(GREETING)] != GREETING[: len(buffer)]:
                raise BadMessage("no greeting")
            if len(buffer) < start:
                return []
            theirs = bytes(buffer[len(GREETING) : start])
            if theirs == self._nonce:
                raise BadMessage("our own greeting came back")
            self._keys = self._key(self._nonce + theirs), self._key(theirs + self._nonce)
        bodies = []
        while len(buffer) - start >= _HEAD.size:
            size, tag = _HEAD.unpack_from(buffer, start)
            if size > (_MOST if self._received else _MOST_OF_HELLO):
                raise BadMessage(f"a message of {size} bytes")
            begin = start + _HEAD.size
            if len(buffer) < begin + size:
                break
            start = begin + size
            body = bytes(buffer[begin:start])
            self._received += 1
            if not compare_digest(tag, _tag(self._keys[1], self._received, body)):
                raise BadMessage("its tag is wrong: the other end does not know the secret")
            bodies.append(body)
        del buffer[:start]
        return bodies

    def _key(self, nonces: bytes) -> bytes:
        return blake2b(self._secret + nonces, digest_size=32).digest()


def _tag(key: bytes, place: int, body: bytes) -> bytes:
    return blake2b(_NUMBER.pack(place) + body, key=key, digest_size=_TAG).digest()
