"""A session as part of the state."""

import hashlib

#: The incarnation of a session that no proxy holds yet: the first proxy gives it the whole timeout.
NO_HOLDER = ""


class Session:
    """A client's session: which proxy has its connection, and the hash of the password that proves its owner.

    Its ephemerals are in the tree's index.
    """

    __slots__ = ("id", "incarnation", "password_hash", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, password_hash: bytes, incarnation: str) -> None:
        self.id = session_id
        self.timeout_ms = timeout_ms
        self.password_hash = password_hash
        self.incarnation = incarnation  # of the proxy that it is attached to

    def is_proved_by(self, password: bytes | None) -> bool:
        """Whether this is the session's password."""
        return self.password_hash == hash_of(password or b"")


def hash_of(password: bytes) -> bytes:
    """The stored form of a session's password. It is random, so a plain hash keeps it secret."""
    return hashlib.sha256(password).digest()[:16]
