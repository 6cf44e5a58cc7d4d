"""Who may do what: ACL checks, the expansion of ACLs that a client sends, and the authentication schemes.

Pure. The rules are ZooKeeper's (ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL and the digest and
IP providers).
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from codec.constants import ErrorCode
from codec.jute import Acl
from proxy.refusal import Refusal
from schema.values import OPEN_ACL


class Identity(NamedTuple):
    """An authenticated (scheme, id) of a connection."""

    scheme: str
    id: str


class Caller(NamedTuple):
    """Who asks for an operation: the session, and the identities of its connection."""

    session_id: int
    identities: tuple[Identity, ...]


def permits(acl: Sequence[Acl], permission: int, identities: Iterable[Identity]) -> bool:
    """Whether one of the identities has (any bit of) the permission; an empty ACL permits all."""
    if acl is OPEN_ACL or not acl:
        return True
    if any(identity.scheme == "super" for identity in identities):
        return True
    for perms, scheme, name in acl:
        if not perms & permission:
            continue
        if scheme == "world" and name == "anyone":
            return True
        for identity in identities:
            if identity.scheme == scheme and _matches(scheme, identity.id, name):
                return True
    return False


def demand(acl: Sequence[Acl], permission: int, identities: Iterable[Identity]) -> None:
    """Raise NOAUTH unless the permission is given."""
    if acl is not OPEN_ACL and not permits(acl, permission, identities):
        raise Refusal(ErrorCode.NO_AUTH)


def _matches(scheme: str, identity: str, pattern: str) -> bool:
    if scheme == "ip":
        return _ip_matches(identity, pattern)
    return scheme == "digest" and identity == pattern


_INTEGER = re.compile(r"[+-]?\d+")
_SEGMENT = re.compile(r"[+-]?[0-9a-fA-F]+")


def _address(text: str) -> bytes | None:
    """An address as ZooKeeper's IPAuthenticationProvider parses it: None where it is none.

    Its own parser takes no IPv4 part within IPv6, but leading zeros and all that Integer.parseInt takes.
    """
    if ":" in text:
        return _ipv6(text)
    parts = text.split(".")
    if len(parts) != 4 or not all(map(_INTEGER.fullmatch, parts)):
        return None
    values = [int(part) for part in parts]
    return bytes(values) if all(0 <= value <= 255 for value in values) else None


def _ipv6(text: str) -> bytes | None:
    """IPAuthenticationProvider.parseV6addr."""
    halves = [half.split(":") if half else [] for half in text.split("::")]
    count = sum(map(len, halves))
    if len(halves) > 2 or (count != 8 if len(halves) == 1 else count >= 8):
        return None
    if not all(len(segment) <= 4 and _SEGMENT.fullmatch(segment) for half in halves for segment in half):
        return None
    first, *last = (b"".join((int(part, 16) & 0xFFFF).to_bytes(2) for part in half) for half in halves)
    return first + bytes(16 - len(first) - len(last[0])) + last[0] if last else first


def _network(pattern: str) -> tuple[bytes, int] | None:
    """(address, prefix length in bits) of an ip ACL's id, or None if it is no such thing."""
    base, slash, length = pattern.partition("/")
    address = _address(base)
    if address is None:
        return None
    bits = len(address) * 8
    if slash:
        if not _INTEGER.fullmatch(length) or not 0 <= int(length) <= bits:
            return None
        bits = int(length)
    return address, bits


def _ip_matches(identity: str, pattern: str) -> bool:
    network = _network(pattern)
    remote = _address(identity)
    if network is None or remote is None or len(remote) != len(network[0]):
        return False
    address, bits = network
    shift = len(address) * 8 - bits
    return int.from_bytes(address) >> shift == int.from_bytes(remote) >> shift


def _is_valid_id(scheme: str, name: str) -> bool:
    if scheme == "ip":
        return _network(name) is not None
    if scheme == "digest":
        # Java's split drops empty strings at the end
        return len(name.rstrip(":").split(":")) == 2
    return False


# The schemes whose identities the scheme "auth" stands for (isAuthenticated of the providers).
_AUTHENTICATED = frozenset(("digest", "super"))


def expand(acl: Sequence[Acl] | None, identities: Sequence[Identity]) -> tuple[Acl, ...]:
    """The ACL to store for one that a client sent. Raises INVALIDACL as fixupACL does."""
    if not acl:
        raise Refusal(ErrorCode.INVALID_ACL)
    if len(acl) == 1 and (acl[0] is OPEN_ACL[0] or acl[0] == OPEN_ACL[0]):
        return OPEN_ACL
    stored: list[Acl] = []
    for entry in dict.fromkeys(acl):
        if entry.scheme == "world" and entry.id == "anyone":
            stored.append(entry)
        elif entry.scheme == "auth":
            known = [identity for identity in identities if identity.scheme in _AUTHENTICATED]
            if not known:
                raise Refusal(ErrorCode.INVALID_ACL)
            stored += (Acl(entry.perms, identity.scheme, identity.id) for identity in known)
        elif _is_valid_id(entry.scheme, entry.id):
            stored.append(entry)
        else:
            raise Refusal(ErrorCode.INVALID_ACL)
    return tuple(stored)


def digest_identity(credentials: bytes) -> Identity:
    """The identity that `user:password` proves, as DigestAuthenticationProvider.generateDigest names it."""
    text = credentials.decode("utf-8", "replace")
    digest = base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()
    return Identity("digest", f"{text.partition(':')[0]}:{digest}")


def authenticate(scheme: str | None, credentials: bytes | None, address: str) -> Identity | None:
    """The identity that an addauth packet proves, or None if it fails."""
    if scheme == "digest" and credentials is not None:
        return digest_identity(credentials)
    if scheme == "ip":
        return Identity("ip", address)
    return None


def masked(acl: Sequence[Acl]) -> tuple[Acl, ...]:
    """The ACL as those without ADMIN see it: no password hashes (FinalRequestProcessor, getACL)."""
    return tuple(
        Acl(entry.perms, entry.scheme, re.sub(r":.*", ":x", entry.id)) if entry.scheme == "digest" else entry
        for entry in acl
    )
