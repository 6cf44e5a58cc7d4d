"""Sessions: what is kept of a password."""

import hashlib

from proxy.state.sessions import Session, hash_of
from schema.entry import PASSWORD_HASH_SIZE, encode_open


def test_the_hash_of_a_password_is_the_beginning_of_its_sha256() -> None:
    assert hash_of(b"secret") == hashlib.sha256(b"secret").digest()[:PASSWORD_HASH_SIZE]
    assert encode_open(1, hash_of(b"")).endswith(hash_of(b""))


def test_a_session_is_small() -> None:
    assert not hasattr(Session(1, 2, bytes(16), "home"), "__dict__")
