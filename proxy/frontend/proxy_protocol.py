"""The PROXY protocol, by which a load balancer names the client of a connection. Pure.

The source is HAProxy's specification (doc/proxy-protocol.txt), versions 1 (a line of text) and 2 (binary).
This module says which balancers are trusted, and reads one header. The listener does the I/O.
"""

import ipaddress
import struct
from typing import NamedTuple

from proxy.state.auth.ip import java_address

OFF = "off"
ACCEPT = "accept"
REQUIRE = "require"
MODES = (OFF, ACCEPT, REQUIRE)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Source = tuple[str, int]
"""The address and port of a client, the address as `java_address` writes it."""

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED = struct.Struct(">12sBBH")  # signature, version and command, family and transport, bytes that follow
_VERSION = 2
_LOCAL, _PROXY = 0, 1
_UNSPECIFIED, _TCP4, _TCP6, _UNIX_STREAM = 0x00, 0x11, 0x21, 0x31
_ADDRESS_BYTES = {_UNSPECIFIED: 0, _TCP4: 12, _TCP6: 36, _UNIX_STREAM: 216}
# The specification allows 65,551. nginx has the same limit (NGX_PROXY_PROTOCOL_MAX_HEADER).
_LONGEST = 4096
_TLV = struct.Struct(">BH")  # type, bytes that follow

_WORD = b"PROXY "
_LONGEST_LINE = 107  # with its CR LF


class BadHeader(ValueError):
    """The connection does not begin with a complete and correct header."""


class Header(NamedTuple):
    """One header."""

    length: int  # bytes
    source: Source | None  # None: the connection is the balancer's own, or the client is unknown


class ProxyProtocol(NamedTuple):
    """The balancers whose headers are trusted."""

    mode: str = OFF
    balancers: tuple[Network, ...] = ()

    def trusts(self, address: str) -> bool:
        """Whether an address, as `java_address` writes it, is one of the balancers'."""
        if self.mode == OFF:
            return False
        parsed = ipaddress.ip_address(address.partition("%")[0])
        return any(parsed in network for network in self.balancers)


def may_begin(first: bytes) -> bool:
    """Whether a header can begin with this byte: no packet, TLS record or four-letter word does."""
    return first in (_SIGNATURE[:1], _WORD[:1])


def parse(data: bytes) -> Header | None:
    """The header with which the bytes begin; None if the header is not complete yet.

    Raises BadHeader.
    """
    if _SIGNATURE.startswith(data[: len(_SIGNATURE)]):
        return _binary(data)
    if _WORD.startswith(data[: len(_WORD)]):
        return _line(data)
    raise BadHeader(f"it begins with {data[:16]!r}")


def _line(data: bytes) -> Header | None:
    end = data.find(b"\n", 0, _LONGEST_LINE)
    if end < 0:
        if len(data) >= _LONGEST_LINE:
            raise BadHeader(f"its line has more than {_LONGEST_LINE} bytes")
        return None
    line = data[: end + 1]
    words = line.removesuffix(b"\r\n").split(b" ")
    if not line.endswith(b"\r\n"):
        raise BadHeader(f"{line!r} does not end with CR LF")
    # What follows UNKNOWN has no meaning.
    if words[1] == b"UNKNOWN":
        return Header(len(line), None)
    kind = {b"TCP4": ipaddress.IPv4Address, b"TCP6": ipaddress.IPv6Address}.get(words[1])
    if kind is None or len(words) != 6:
        raise BadHeader(f"{line!r} is not PROXY TCP4, TCP6 or UNKNOWN with two addresses and two ports")
    try:
        source, _ = (kind(_ascii(word)) for word in words[2:4])
        port, _ = (_port(word) for word in words[4:6])
    except ValueError:
        raise BadHeader(f"{line!r} has no valid addresses and ports") from None
    return Header(len(line), (java_address(str(source)), port))


def _ascii(word: bytes) -> str:
    # ipaddress would accept the zone of fe80::1%eth0, which has no meaning on another host.
    if b"%" in word:
        raise ValueError("a zone")
    return word.decode("ascii")


def _port(word: bytes) -> int:
    if not word.isdigit() or len(word) > 5 or int(word) > 65535:
        raise ValueError("no port")
    return int(word)


def _binary(data: bytes) -> Header | None:
    if len(data) < _FIXED.size:
        return None
    _, version_and_command, family, follows = _FIXED.unpack_from(data)
    version, command = version_and_command >> 4, version_and_command & 0xF
    if version != _VERSION or command not in (_LOCAL, _PROXY):
        raise BadHeader(f"version {version} with command {command} is unknown")
    length = _FIXED.size + follows
    if length > _LONGEST:
        raise BadHeader(f"it has {length} bytes, more than {_LONGEST}")
    if len(data) < length:
        return None
    if command == _LOCAL:  # the rest of such a header has no meaning
        return Header(length, None)
    if family not in _ADDRESS_BYTES:
        raise BadHeader(f"address family and transport 0x{family:02x} are not those of a stream")
    if family == _UNSPECIFIED:  # the rest has to be ignored
        return Header(length, None)
    if follows < _ADDRESS_BYTES[family]:
        raise BadHeader(f"{follows} bytes do not hold the addresses of family 0x{family:02x}")
    _check_tlvs(data[_FIXED.size + _ADDRESS_BYTES[family] : length])
    return Header(length, _binary_source(family, data[_FIXED.size : length]))


def _check_tlvs(data: bytes) -> None:
    """The fields of a header after the addresses are not used, but must be complete."""
    at = 0
    while at < len(data):
        if len(data) - at < _TLV.size:
            raise BadHeader("its last TLV is cut short")
        at += _TLV.size + _TLV.unpack_from(data, at)[1]
    if at > len(data):
        raise BadHeader("a TLV is longer than the header")


def _binary_source(family: int, addresses: bytes) -> Source | None:
    """The source address; None for families without one. A Unix socket's client is on the balancer's host."""
    if family == _TCP4:
        source, port = struct.unpack_from(">4s4xH", addresses)
    elif family == _TCP6:
        source, port = struct.unpack_from(">16s16xH", addresses)
    else:
        return None
    return java_address(str(ipaddress.ip_address(source))), port
