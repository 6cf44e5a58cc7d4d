"""The table of schemes, and what a server offers of it."""

from codec.constants import Perms
from codec.jute import Acl
from proxy.state.acl import permits
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity, Peer, Settings
from proxy.state.auth.schemes import ALWAYS, SCHEMES, AuthSchemes, offered

PLAIN = Peer("10.0.0.7")
SECURE = Peer("10.0.0.7", "CN=amy")
ADDRESS = Identity("ip", "10.0.0.7")


def test_every_server_has_digest_and_ip() -> None:
    assert AuthSchemes().authenticate("digest", b"user:word", PLAIN) == (digest_identity(b"user:word"),)
    assert AuthSchemes().authenticate("ip", None, PLAIN) == (ADDRESS,)
    assert AuthSchemes().identities(PLAIN) == (ADDRESS,)


def test_what_no_scheme_proves_fails() -> None:
    for name in ("world", "auth", "super", "", None):
        assert AuthSchemes().authenticate(name, b"anyone", PLAIN) == ()


def test_a_scheme_that_is_not_offered_proves_nothing() -> None:
    assert AuthSchemes().identities(SECURE) == (ADDRESS,)
    assert AuthSchemes().authenticate("x509", None, SECURE) == ()
    secure = AuthSchemes(offered(x509=True, sasl=False))
    assert secure.identities(SECURE) == (ADDRESS, Identity("x509", "CN=amy"))


def test_what_is_offered() -> None:
    assert offered(x509=False, sasl=False) == ALWAYS == {"digest", "ip"}
    assert offered(x509=False, sasl=True) == {"digest", "ip", "sasl"}
    assert offered(x509=True, sasl=True) == set(SCHEMES)


def test_the_identities_of_every_scheme_match_their_own_entries() -> None:
    everything = AuthSchemes(frozenset(SCHEMES), Settings(super_subject="CN=root"))
    for identity in (*everything.identities(SECURE), *everything.authenticate("digest", b"a:b", SECURE)):
        assert permits((Acl(31, identity.scheme, identity.id),), Perms.READ, (identity,))
        assert SCHEMES[identity.scheme].is_valid(identity.id)
