"""The schemes digest, sasl and x509, what a server offers, and the order of identities."""

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from codec.constants import Perms
from codec.jute import Acl
from proof.fuzzing.expensive import Lines
from proxy.state.auth.digest import DIGEST, digest_identity
from proxy.state.auth.listing import listed
from proxy.state.auth.scheme import Identities, Identity, Remote, Settings
from proxy.state.auth.schemes import ALWAYS, SCHEMES, AuthSchemes, offered
from proxy.state.auth.x509 import X509, subject_name
from proxy.state.rights import permits, rights_of

PLAIN, SECURE = Remote("10.0.0.7"), Remote("10.0.0.7", "CN=amy")
ADDRESS, AMY = Identity("ip", "10.0.0.7"), Identity("x509", "CN=amy")
# What DigestAuthenticationProvider.generateDigest gives, from its unit test.
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="


def test_digests() -> None:
    identity = digest_identity(b"super:test")
    assert identity == Identity("digest", SUPER_DIGEST)
    root = Settings(super_digest=SUPER_DIGEST)
    assert DIGEST.authenticate(b"super:test", PLAIN, root) == (Identity("super", ""), identity)
    assert DIGEST.authenticate(b"super:test", PLAIN, Settings()) == (identity,)
    assert DIGEST.authenticate(b"super:tset", PLAIN, root) == (digest_identity(b"super:tset"),)
    assert DIGEST.authenticate(None, PLAIN, root) == ()
    assert DIGEST.user_name("amy:hash") == "amy"


def test_a_digest_of_what_is_no_text_is_that_of_its_replacement() -> None:
    assert digest_identity(b"us\xff:w").id.startswith("us\ufffd:")
    assert digest_identity(b"us\xff:w") == digest_identity("us\ufffd:w".encode())


def test_the_subject_of_a_certificate() -> None:
    assert X509.proves
    root = Settings(super_subject="CN=amy")
    assert X509.on_connect(SECURE, root) == (Identity("super", "CN=amy"), AMY)
    assert X509.on_connect(Remote("", "CN=bob"), root) == (Identity("x509", "CN=bob"),)
    for prove in (X509.on_connect, lambda *who: X509.authenticate(b"CN=bob", *who)):
        assert prove(SECURE, Settings()) == (AMY,)
        assert prove(PLAIN, Settings()) == ()
        assert prove(Remote("", ""), Settings()) == (Identity("x509", ""),), "no name is not super by default"


def test_the_name_of_a_certificate() -> None:
    authority = trustme.CA(organization_name="Org, Inc.", organization_unit_name="Unit")
    leaf = authority.issue_cert("amy@example.org", common_name="amy")
    certificate = load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    told = subject_name(certificate.public_bytes(Encoding.DER))
    assert told.startswith("CN=amy,OU=")
    assert ",O=trustme v" in told
    for bad in (b"", b"\x30", b"\x30\x03\x30\x01", b"\x31\x00", b"\x30\x80", b"\x30\x85\1\1\1\1\1"):
        with pytest.raises(ValueError, match="DER"):
            subject_name(bad)


def test_every_server_has_digest_and_ip() -> None:
    schemes = AuthSchemes()
    assert schemes.authenticate("digest", b"user:word", PLAIN) == (digest_identity(b"user:word"),)
    assert schemes.authenticate("ip", None, PLAIN) == schemes.identities(SECURE) == (ADDRESS,)
    for name in ("world", "auth", "super", "", None, "x509"):
        assert schemes.authenticate(name, b"anyone", SECURE) == ()
    assert AuthSchemes(offered(x509=True, sasl=False)).identities(SECURE) == (ADDRESS, AMY)


def test_what_is_offered() -> None:
    assert offered(x509=False, sasl=False) == ALWAYS == {"digest", "ip"}
    assert offered(x509=False, sasl=True) == {"digest", "ip", "sasl"}
    assert offered(x509=True, sasl=True) == set(SCHEMES)


def test_the_identities_of_every_scheme_match_their_own_entries() -> None:
    everything = AuthSchemes(frozenset(SCHEMES), Settings(super_subject="CN=root"))
    for identity in (*everything.identities(SECURE), *everything.authenticate("digest", b"a:b", SECURE)):
        assert permits(rights_of((Acl(31, identity.scheme, identity.id),)), Perms.READ, (identity,))
        assert SCHEMES[identity.scheme].is_valid(identity.id)


def _digest(user: str) -> Identity:
    (identity,) = DIGEST.authenticate(user.encode() + b":1", Remote("127.0.0.1"), Settings())
    return identity


def test_adding_to_a_list_is_listing_all() -> None:
    identities = tuple(map(_digest, map(str, range(40))))
    one_by_one: tuple[Identity, ...] = ()
    for identity in identities:
        one_by_one = listed((*one_by_one, identity, identity))
    assert one_by_one == listed(identities)
    assert sorted(one_by_one) == sorted(identities)


def test_one_more_identity_costs_what_its_own_name_costs() -> None:
    """A client that proved 215 by 7 KB of packets took 289 ms: the names of all were hashed for each."""
    lines = Lines()
    identities: Identities = ()
    with lines.running():
        for number in range(200):
            identities = listed((*identities, Identity("digest", f"one-more-{number}:{'x' * 28}")))
    assert lines.count < 200 * 800


def test_names_of_any_characters_are_listed() -> None:
    names = [Identity("sasl", name) for name in ("", "\ud800", "\U0001f600", "\xfc")]
    assert set(listed(tuple(names))) == set(names)
