"""PROXY headers for tests, written after HAProxy's specification and not with the parser's help."""

import ipaddress

from proxy.frontend.proxy_protocol import Source

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
_SERVER = {4: "198.51.100.1", 6: "2001:db8::1"}


def line(source: Source) -> bytes:
    """Version 1."""
    address = ipaddress.ip_address(source[0])
    return f"PROXY TCP{address.version} {address} {_SERVER[address.version]} {source[1]} 2181\r\n".encode()


def binary(source: Source | None, command: int = 1, tlvs: bytes = b"") -> bytes:
    """Version 2; without a source of the family UNSPEC."""
    if source is None:
        family, addresses = 0, b""
    else:
        address = ipaddress.ip_address(source[0])
        family = {4: 0x11, 6: 0x21}[address.version]
        server = ipaddress.ip_address(_SERVER[address.version]).packed
        addresses = address.packed + server + source[1].to_bytes(2) + (2181).to_bytes(2)
    return framed(addresses + tlvs, family, command)


def framed(body: bytes, family: int, command: int = 1, version: int = 2) -> bytes:
    """Version 2 with any content."""
    return SIGNATURE + bytes([version << 4 | command, family]) + len(body).to_bytes(2) + body
