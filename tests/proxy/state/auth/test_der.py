"""The subject and the dates out of a certificate's DER."""

import contextlib

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import (
    Name,
    NameAttribute,
    ObjectIdentifier,
    load_der_x509_certificate,
    load_pem_x509_certificate,
)
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from lab.servers.tls import Authority
from proxy.state.auth.der import Attribute, subject_of, validity_of
from tests.table import one_by_one


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """One with a long part and an odd type in its name."""
    name = Name(
        [
            NameAttribute(NameOID.COMMON_NAME, "n" * 64),
            NameAttribute(ObjectIdentifier("2.999.16384"), "v" * 300),
        ]
    )
    pair = Authority(tmp_path_factory.mktemp("der")).issue_for("one", name)
    return load_pem_x509_certificate(pair.cert.read_bytes()).public_bytes(Encoding.DER)


def test_the_subject_is_found(certificate: bytes) -> None:
    (name,), (value,) = subject_of(certificate)
    assert name == Attribute("2.5.4.3", 0x0C, b"n" * 64, b"\x0c\x40" + b"n" * 64)
    assert value == Attribute("2.999.16384", 0x0C, b"v" * 300, b"\x0c\x82\x01\x2c" + b"v" * 300)


def _element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    return bytes((tag, size) if size < 128 else (tag, 0x83, *size.to_bytes(3))) + content


def _named(oid: bytes, value: bytes) -> bytes:
    """A certificate of version 1, which does not say so."""
    part = _element(0x30, _element(6, oid), _element(0x0C, value))
    before = _element(2, b"\1"), *[_element(0x30)] * 3
    return _element(0x30, _element(0x30, *before, _element(0x30, _element(0x31, part))))


def test_a_certificate_of_version_1_does_not_say_so() -> None:
    assert subject_of(_named(b"\x55\x04\x03", b"n")) == [[Attribute("2.5.4.3", 0x0C, b"n", b"\x0c\1n")]]


def test_a_long_name_is_refused_before_it_is_read() -> None:
    """An OID of 90 KB took more than a second; and each write of the client would carry the name."""
    ((attribute,),) = subject_of(_named(b"\x55\x04\x03", bytes(4000)))
    assert attribute.value == bytes(4000)
    for oid, size in ((b"\x55\x04\x03", 4096), (b"\x55" + b"\xff" * 90_000 + b"\1", 1)):
        with pytest.raises(ValueError, match=r"its subject has \d+ bytes, more than 4096"):
            subject_of(_named(oid, bytes(size)))


def test_a_long_oid_is_refused() -> None:
    ((attribute,),) = subject_of(_named(b"\x55" + b"\1" * 63, b""))
    assert attribute.oid == "2.5" + ".1" * 63
    with pytest.raises(ValueError, match="an OID in DER has 65 bytes, more than 64"):
        subject_of(_named(b"\x55" + b"\1" * 64, b""))


def test_the_dates_are_found(certificate: bytes) -> None:
    same = load_der_x509_certificate(certificate)
    begins, ends = same.not_valid_before_utc, same.not_valid_after_utc
    assert validity_of(certificate) == (begins.timestamp(), ends.timestamp())


@one_by_one(
    ("tag", "text", "seconds"),
    [
        (0x17, b"700101000001Z", 1),
        (0x17, b"491231235959Z", 2524607999),
        (0x17, b"500101000000Z", -631152000),
        (0x18, b"20500101000000Z", 2524608000),  # RFC 5280: from 2050 on in this form
        (0x18, b"99991231235959Z", 253402300799),
        (0x17, b"7001010000Z", None),
        (0x17, b"700101000001+0100", None),
        (0x0C, b"700101000001Z", None),
    ],
)
def test_the_forms_of_a_time(tag: int, text: bytes, seconds: int | None) -> None:
    dates = _element(0x30, _element(tag, text), _element(tag, text))
    certificate = _element(0x30, _element(0x30, _element(2, b"\1"), *[_element(0x30)] * 2, dates))
    if seconds is None:
        with pytest.raises(ValueError, match="DER"):
            validity_of(certificate)
    else:
        assert validity_of(certificate) == (seconds, seconds)


def test_a_certificate_that_ends_early_is_none(certificate: bytes) -> None:
    for length in range(len(certificate)):
        with pytest.raises(ValueError, match="DER"):
            subject_of(certificate[:length])
        with pytest.raises(ValueError, match="DER"):
            validity_of(certificate[:length])


@given(st.data())
def test_anything_is_a_name_or_a_value_error(certificate: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(certificate) - 1))
    damaged = bytearray(certificate)
    damaged[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        subject_of(bytes(damaged))
    with contextlib.suppress(ValueError):
        validity_of(bytes(damaged))
