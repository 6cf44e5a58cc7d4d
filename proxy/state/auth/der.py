"""Reads subject and dates of an X.509 certificate from its DER; only the ASN.1 that this needs.

OpenSSL has verified the certificate before. A malformed one still raises ValueError.
"""

from calendar import timegm
from typing import NamedTuple

_SEQUENCE = 0x30
_SET = 0x31
_OID = 0x06
_VERSION = 0xA0
_UTC_TIME = 0x17  # YYMMDDHHMMSSZ
_GENERALIZED_TIME = 0x18  # YYYYMMDDHHMMSSZ
_BEFORE_VALIDITY = 3  # fields: serial number, signature algorithm, issuer
# Bytes of a subject and of an OID in it. OpenSSL takes 60 KB, which each write of the client would carry.
_MOST_OF_SUBJECT = 4 << 10
_MOST_OF_OID = 64


class Attribute(NamedTuple):
    """One attribute of a name: its type as a dotted OID, and its value."""

    oid: str
    tag: int  # of the value, such as 0x0C for UTF8String
    value: bytes  # its content
    der: bytes  # the value with tag and length


#: Relative distinguished names in the certificate's order, most of one attribute.
Name = list[list[Attribute]]


def subject_of(certificate: bytes) -> Name:
    """The subject of a DER certificate. Raises ValueError, also if it is too long."""
    tag, name, _ = _field(certificate, _BEFORE_VALIDITY + 1)
    _expect(tag, _SEQUENCE)
    if len(name) > _MOST_OF_SUBJECT:
        raise ValueError(f"its subject has {len(name)} bytes, more than {_MOST_OF_SUBJECT}")
    return [[_attribute(pair) for pair in _elements(content, _SEQUENCE)] for content in _elements(name, _SET)]


def validity_of(certificate: bytes) -> tuple[int, int]:
    """When a DER certificate begins and ends to be valid, in seconds since 1970. Raises ValueError."""
    tag, validity, _ = _field(certificate, _BEFORE_VALIDITY)
    _expect(tag, _SEQUENCE)
    tag, begins, position = _element(validity, 0)
    return _time(tag, begins), _time(*_element(validity, position)[:2])


def _field(certificate: bytes, number: int) -> tuple[int, bytes, int]:
    """A field of the certificate, counted after its version, which may be missing."""
    tag, content, _ = _element(certificate, 0)
    _expect(tag, _SEQUENCE)
    tag, fields, _ = _element(content, 0)
    _expect(tag, _SEQUENCE)
    position = 0
    if fields[:1] == bytes([_VERSION]):
        position = _element(fields, 0)[2]
    for _ in range(number):
        position = _element(fields, position)[2]
    return _element(fields, position)


def _time(tag: int, content: bytes) -> int:
    """RFC 5280, 4.1.2.5: always in GMT, with seconds; two digits of a year mean 1950 to 2049."""
    digits = content[:-1].decode("ascii", "replace")
    if tag == _UTC_TIME:
        digits = ("19" if digits >= "50" else "20") + digits
    elif tag != _GENERALIZED_TIME:
        raise ValueError(f"DER has tag {tag:#x} instead of a time")
    if len(digits) != 14 or not digits.isdecimal() or content[-1:] != b"Z":
        raise ValueError(f"a time in DER is invalid: {content!r}")
    pairs = [int(digits[place : place + 2]) for place in range(4, 14, 2)]
    return timegm((int(digits[:4]), *pairs))


def _attribute(pair: bytes) -> Attribute:
    tag, oid, start = _element(pair, 0)
    _expect(tag, _OID)
    tag, value, end = _element(pair, start)
    return Attribute(_dotted(oid), tag, value, pair[start:end])


def _elements(content: bytes, expected: int) -> list[bytes]:
    """The contents of all elements of a sequence or set."""
    found = []
    position = 0
    while position < len(content):
        tag, inner, position = _element(content, position)
        _expect(tag, expected)
        found.append(inner)
    return found


def _element(data: bytes, position: int) -> tuple[int, bytes, int]:
    """(tag, content, position after it) of the element at a position."""
    header = data[position : position + 2]
    if len(header) < 2:
        raise ValueError("DER ends early")
    tag, length = header
    start = position + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or len(data) < start + count:
            raise ValueError("a length in DER is invalid")
        length = int.from_bytes(data[start : start + count])
        start += count
    if len(data) < start + length:
        raise ValueError("DER ends early")
    return tag, data[start : start + length], start + length


def _dotted(oid: bytes) -> str:
    if len(oid) > _MOST_OF_OID:
        raise ValueError(f"an OID in DER has {len(oid)} bytes, more than {_MOST_OF_OID}")
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers or value:
        raise ValueError("an OID in DER is invalid")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _expect(tag: int, expected: int) -> None:
    if tag != expected:
        raise ValueError(f"DER has tag {tag:#x} instead of {expected:#x}")
