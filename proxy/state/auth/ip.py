"""Scheme `ip`: the client's address; an ACL's id is an address or a network (IPAuthenticationProvider)."""

import ipaddress
import re
from collections.abc import Iterator

from proxy.state.auth.scheme import Identities, Identity, Key, Remote, Scheme, Settings
from proxy.state.java_numbers import read_integer


def java_address(text: str) -> str:
    """An address of a socket as Java's InetAddress.getHostAddress writes it.

    IPv6 addresses have no `::`. An IPv4 client of a socket for both kinds has an IPv4 address.
    """
    if ":" not in text:
        return text
    base, percent, scope = text.partition("%")
    address = ipaddress.IPv6Address(base)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":")) + percent + scope


_OCTETS = {str(value): value for value in range(256)}
_SEGMENT = re.compile(r"[+-]?[0-9a-fA-F]+")


def _address(text: str) -> bytes | None:
    """An address as ZooKeeper's IPAuthenticationProvider parses it; None if it is not one.

    That parser does not accept an IPv4 part in IPv6, but accepts leading zeros and all that Integer.parseInt
    accepts.
    """
    if ":" in text:
        return _ipv6(text)
    parts = text.split(".", 4)
    if len(parts) != 4:
        return None
    try:
        return bytes([_OCTETS[part] for part in parts])
    except KeyError:  # none, or not as it is usually written
        pass
    values = [value for part in parts if (value := read_integer(part)) is not None and 0 <= value <= 255]
    return bytes(values) if len(values) == 4 else None


def _ipv6(text: str) -> bytes | None:
    """IPAuthenticationProvider.parseV6addr."""
    halves = [half.split(":", 8) if half else [] for half in text.split("::", 2)]
    count = sum(map(len, halves))
    if len(halves) > 2 or (count != 8 if len(halves) == 1 else count >= 8):
        return None
    if not all(len(segment) <= 4 and _SEGMENT.fullmatch(segment) for half in halves for segment in half):
        return None
    first, *last = (b"".join((int(part, 16) & 0xFFFF).to_bytes(2) for part in half) for half in halves)
    return first + bytes(16 - len(first) - len(last[0])) + last[0] if last else first


def _network(pattern: str) -> tuple[bytes, int] | None:
    """(address, prefix length in bits) of an ip ACL's id, or None if it is neither."""
    base, slash, length = pattern.partition("/")
    address = _address(base)
    if address is None:
        return None
    bits = len(address) * 8
    if slash:
        given = read_integer(length)
        if given is None or not 0 <= given <= bits:
            return None
        bits = given
    return address, bits


def _key(address: bytes, bits: int) -> bytes:
    """A network: its prefix length, and its first address."""
    size = len(address)
    shift = size * 8 - bits
    return (int.from_bytes(address) >> shift << shift | bits << size * 8).to_bytes(size + 1)


def _keys_of_entry(name: str) -> tuple[Key, ...]:
    network = _network(name)
    return () if network is None else (_key(*network),)


def _keys_of_identity(name: str) -> Iterator[Key]:
    """All networks that the address is in."""
    address = _address(name)
    return iter(()) if address is None else (_key(address, bits) for bits in range(len(address) * 8 + 1))


def _is_valid(name: str) -> bool:
    return _network(name) is not None


def _on_connect(remote: Remote, settings: Settings) -> Identities:
    return (Identity("ip", remote.address),)


def _authenticate(credentials: bytes | None, remote: Remote, settings: Settings) -> Identities:
    return _on_connect(remote, settings)


IP = Scheme(
    "ip", _authenticate, _keys_of_entry, _keys_of_identity, _is_valid, proves=False, on_connect=_on_connect
)
