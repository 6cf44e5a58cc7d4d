"""Sessions of a ZooKeeper, whose clients continue them at zketcd. ZooKeeper derives a password from the id.

Pure. ZooKeeperServer.generatePasswd seeds a java.util.Random, whose algorithm the Java specification defines.
"""

from pipeline.table import SessionRow
from proxy.state.sessions import NO_HOLDER, Session, hash_of

_UNKNOWN_TIMEOUT_MS = 10_000  # of a session that is known only by its ephemerals
_SECRET = 0xB3415C00  # ZooKeeperServer.superSecret
_BYTES = 16
_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_MASK = (1 << 48) - 1


def session_of_row(row: SessionRow) -> Session:
    """The session as zketcd keeps it."""
    return Session(row.id, row.timeout_ms, hash_of(password_of(row.id)), NO_HOLDER)


def unknown_session(session_id: int) -> Session:
    """An owner of ephemerals of which nothing else is known."""
    return session_of_row(SessionRow(session_id, _UNKNOWN_TIMEOUT_MS))


def password_of(session_id: int) -> bytes:
    """The 16 bytes that the client of session `session_id` (signed 64 bit) sends when it reconnects."""
    state = (session_id ^ _SECRET ^ _MULTIPLIER) & _MASK
    password = b""
    while len(password) < _BYTES:
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        password += (state >> 16).to_bytes(4, "little")  # nextBytes takes each int's lowest byte first
    return password
