"""A session as the state knows it."""

import hashlib


class Session:
    """A client's session: which proxy has its connection, and what proves that a client is its own.

    Its ephemerals are in the tree's index.
    """

    __slots__ = ("id", "incarnation", "password_hash", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, password_hash: bytes, incarnation: str) -> None:
        self.id = session_id
        self.timeout_ms = timeout_ms
        self.password_hash = password_hash
        self.incarnation = incarnation  # of the proxy that it is attached to


def hash_of(password: bytes) -> bytes:
    """What is kept of a session's password. The password is random, so a plain hash keeps it secret."""
    return hashlib.sha256(password).digest()[:16]


def session_text(session_id: int) -> str:
    """A session's id as ZooKeeper prints it: without a sign, since a server above 127 makes negative ones."""
    return f"0x{session_id & (1 << 64) - 1:x}"
