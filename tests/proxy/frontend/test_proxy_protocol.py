"""PROXY headers: both versions, cut at every byte, damaged, and any bytes at all."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.frontend.proxy_protocol import (
    ACCEPT,
    OFF,
    BadHeader,
    Header,
    ProxyProtocol,
    Source,
    may_begin,
    parse,
)
from proxy.state.auth.ip import java_address
from tests.proxy.frontend.proxy_headers import binary, framed, line
from tests.table import one_by_one

_FOUR = ("192.0.2.7", 52000)
_SIX = ("2001:db8:0:0:0:0:0:9", 65535)
_TLVS = b"\x02\x00\x07zk.test" + b"\x04\x00\x00"
_UNIX = framed(b"/run/client".ljust(108, b"\0") + b"/run/zketcd".ljust(108, b"\0"), 0x31)
_GOOD: list[tuple[bytes, Source | None]] = [
    (line(_FOUR), _FOUR),
    (line(_SIX), _SIX),
    (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", ("255.255.255.255", 65535)),
    (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 0 1\r\n", ("192.0.2.7", 0)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN " + b"ffff:" * 7 + b"ffff " + b"ffff:" * 7 + b"ffff 65535 65535\r\n", None),
    (binary(_FOUR), _FOUR),
    (binary(_SIX), _SIX),
    (binary(("::ffff:192.0.2.7", 1)), ("192.0.2.7", 1)),
    (binary(_FOUR, tlvs=_TLVS), _FOUR),
    (binary(None), None),
    (binary(None, tlvs=b"whatever"), None),
    (binary(None, command=0), None),
    (binary(_FOUR, command=0), None),
    (framed(b"x" * 7, 0xFF, command=0), None),
    (_UNIX, None),
]


@one_by_one(("header", "source"), _GOOD)
def test_a_header_is_read_and_what_follows_left(header: bytes, source: Source | None) -> None:
    assert may_begin(header[:1])
    for rest in (b"", b"ruok", b"\x16\x03\x01", header):
        assert parse(header + rest) == Header(len(header), source)


@one_by_one("header", [header for header, _ in _GOOD])
def test_cut_at_every_byte_it_is_not_whole_yet(header: bytes) -> None:
    assert [parse(header[:end]) for end in range(len(header))] == [None] * len(header)


_BAD = [
    (b"ruok", "begins with b'ruok'"),
    (b"\x16\x03\x01", "begins with"),
    (b"PROXX ", "begins with"),
    (b"proxy tcp4", "begins with"),
    (b"PROXY\r\n", "begins with"),
    (b"\r\n\r\n\0\r\nQUIT\r", "begins with"),
    (b"PROXY \r\n", "is not PROXY TCP4"),
    (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "is not PROXY TCP4"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "is not PROXY TCP4"),
    (b"PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n", "is not PROXY TCP4"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n", "is not PROXY TCP4"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "CR LF"),
    (b"PROXY UNKNOWN\n", "CR LF"),
    (b"PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", "no valid addresses"),
    (b"PROXY TCP4 1.2.3.4 ::1 1 2\r\n", "no valid addresses"),
    (b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "no valid addresses"),
    (b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "no valid addresses"),
    ("PROXY TCP4 1.2.3.\u0664 1.2.3.4 1 2\r\n".encode(), "no valid addresses"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", "no valid addresses"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n", "no valid addresses"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 000001 2\r\n", "no valid addresses"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 " + b"9" * 50 + b"\r\n", "no valid addresses"),
    (b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n", "more than 107 bytes"),
    (framed(bytes(12), 0x11, version=1), "version 1"),
    (framed(bytes(12), 0x11, version=3), "version 3"),
    (framed(bytes(12), 0x11, command=2), "command 2"),
    (framed(bytes(12), 0x12), "0x12"),
    (framed(bytes(216), 0x32), "0x32"),
    (framed(bytes(216), 0x41), "0x41"),
    (framed(bytes(12), 0x13), "0x13"),
    (framed(bytes(11), 0x11), "11 bytes do not hold"),
    (framed(bytes(35), 0x21), "35 bytes do not hold"),
    (framed(b"", 0x31), "0 bytes do not hold"),
    (framed(bytes(4081), 0x11), "4097 bytes"),
    (framed(bytes(65535), 0x11)[:16], "65551 bytes"),
    (framed(bytes(65535), 0x00, command=0)[:16], "65551 bytes"),
    (binary(_FOUR, tlvs=b"\x02\x00"), "cut short"),
    (binary(_FOUR, tlvs=b"\x02\x00\x02a"), "longer than the header"),
    (binary(_FOUR, tlvs=b"\x02\xff\xffa"), "longer than the header"),
]


@one_by_one(("data", "reason"), _BAD)
def test_a_bad_header_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadHeader, match=reason):
        parse(data)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_each_address_is_read_as_java_writes_it(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    source = (str(address), port)
    expected = (java_address(str(address)), port)
    assert [parse(made(source)) for made in (line, binary)] == [
        Header(len(made(source)), expected) for made in (line, binary)
    ]


def test_only_named_balancers_are_believed() -> None:
    networks = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "192.0.2.1", "2001:db8::/32")))
    trusting = ProxyProtocol(ACCEPT, networks)
    assert [trusting.trusts(address) for address in ("10.1.2.3", "192.0.2.1", _SIX[0])] == [True] * 3
    assert [
        trusting.trusts(address) for address in ("11.1.2.3", "192.0.2.2", "::1", "fe80:0:0:0:0:0:0:1%lo")
    ] == [False] * 4
    assert not ProxyProtocol(OFF, networks).trusts("10.1.2.3")
    assert not ProxyProtocol().trusts("10.1.2.3")
