"""Scheme x509: the subject of the client's certificate."""

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from proxy.state.auth.scheme import Identity, Peer, Settings
from proxy.state.auth.x509 import X509, subject_name

NOT_TLS = Peer("10.0.0.7")
AMY = Peer("10.0.0.7", "CN=amy")


def test_the_subject_is_the_identity_from_the_start() -> None:
    assert X509.on_connect(AMY, Settings()) == (Identity("x509", "CN=amy"),)
    assert X509.authenticate(b"whatever", AMY, Settings()) == (Identity("x509", "CN=amy"),)
    assert X509.proves


def test_without_a_certificate_there_is_none() -> None:
    assert X509.on_connect(NOT_TLS, Settings()) == ()
    assert X509.authenticate(b"CN=amy", NOT_TLS, Settings()) == ()


def test_the_configured_subject_is_the_super_user_too() -> None:
    settings = Settings(super_subject="CN=amy")
    assert X509.on_connect(AMY, settings) == (Identity("super", "CN=amy"), Identity("x509", "CN=amy"))
    assert X509.on_connect(Peer("", "CN=bob"), settings) == (Identity("x509", "CN=bob"),)


def test_a_certificate_without_a_name_is_not_super_by_default() -> None:
    assert X509.on_connect(Peer("", ""), Settings()) == (Identity("x509", ""),)


def test_the_name_of_a_certificate() -> None:
    authority = trustme.CA(organization_name="Org, Inc.", organization_unit_name="Unit")
    leaf = authority.issue_cert("amy@example.org", common_name="amy")
    certificate = load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    told = subject_name(certificate.public_bytes(Encoding.DER))
    assert told.startswith("CN=amy,OU=")
    assert ",O=trustme v" in told


def test_a_name_that_is_none() -> None:
    for bad in (b"", b"\x30", b"\x30\x03\x30\x01", b"\x31\x00", b"\x30\x80", b"\x30\x85\1\1\1\1\1"):
        with pytest.raises(ValueError, match="DER"):
            subject_name(bad)
