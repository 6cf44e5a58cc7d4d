"""Scheme sasl: whom entries of ACLs mean. tests/compat/test_sasl.py compares it with real ZooKeeper."""

from proxy.state.auth.sasl import SASL, sasl_identities
from proxy.state.auth.scheme import Identity, Peer, Settings


def test_the_super_user_is_both() -> None:
    bob = Identity("sasl", "bob")
    assert sasl_identities("bob", is_super=False) == (bob,)
    assert sasl_identities("bob", is_super=True) == (bob, Identity("super", ""))


def test_an_addauth_proves_nothing() -> None:
    assert SASL.authenticate(b"bob:word", Peer(""), Settings()) == ()


def test_every_entry_means_super_and_the_user_that_it_names() -> None:
    assert [SASL.matches(name, "bob") for name in ("bob", "amy", "super", "")] == [True, False, True, False]


def test_names_are_those_of_kerberos() -> None:
    assert all(map(SASL.is_valid, ("", "bob", "a/b", "a/b/c", "a@R", "a/b@R")))
    assert not any(map(SASL.is_valid, ("a@b@R", "a/b/c@R")))
