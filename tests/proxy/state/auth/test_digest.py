"""Scheme digest: user, password and their hash."""

import pytest

from proxy.state.auth.digest import DIGEST, digest_identity
from proxy.state.auth.scheme import Identity, Peer, Settings

PEER = Peer("10.0.0.7")


def test_a_digest_is_zookeepers() -> None:
    # What DigestAuthenticationProvider.generateDigest gives, from its unit test's "super:test".
    assert digest_identity(b"super:test") == Identity("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")


def test_a_digest_of_what_is_no_text_is_that_of_its_replacement() -> None:
    assert digest_identity(b"us\xff:w").id.startswith("us\ufffd:")
    assert digest_identity(b"us\xff:w") == digest_identity("us\ufffd:w".encode())


@pytest.mark.parametrize("name", ["user:hash", ":hash", "user:hash:"])
def test_entries_that_are_taken(name: str) -> None:
    assert DIGEST.is_valid(name)


@pytest.mark.parametrize("name", ["", "user", "user:", ":", "a:b:c"])
def test_entries_that_are_not(name: str) -> None:
    assert not DIGEST.is_valid(name)


def test_the_configured_digest_is_the_super_user_too() -> None:
    root = Settings(super_digest="super:D/InIHSb7yEEbrWz8b9l71RjZJU=")
    identity = digest_identity(b"super:test")
    assert DIGEST.authenticate(b"super:test", PEER, root) == (Identity("super", ""), identity)
    assert DIGEST.authenticate(b"super:test", PEER, Settings()) == (identity,)
    assert DIGEST.authenticate(b"super:tset", PEER, root) == (digest_identity(b"super:tset"),)


def test_no_credentials_prove_nothing() -> None:
    assert DIGEST.authenticate(None, PEER, Settings()) == ()


def test_the_user_is_what_stands_before_the_colon() -> None:
    assert DIGEST.user_name("amy:hash") == "amy"
