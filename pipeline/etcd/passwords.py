"""The password of a ZooKeeper session, which ZooKeeper derives from the session's id.

Pure. ZooKeeperServer.generatePasswd seeds a java.util.Random, whose algorithm the Java specification defines.
"""

_SECRET = 0xB3415C00  # ZooKeeperServer.superSecret
_BYTES = 16
_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_MASK = (1 << 48) - 1


def password_of(session_id: int) -> bytes:
    """The 16 bytes that the client of session `session_id` (signed 64 bit) sends when it reconnects."""
    state = (session_id ^ _SECRET ^ _MULTIPLIER) & _MASK
    password = b""
    while len(password) < _BYTES:
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        password += (state >> 16).to_bytes(4, "little")  # nextBytes takes each int's lowest byte first
    return password
