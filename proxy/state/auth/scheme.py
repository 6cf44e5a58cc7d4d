"""What an authentication scheme is: ZooKeeper's AuthenticationProvider. Each has a file of its own."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from schema.entry import Identity as Identity


class Peer(NamedTuple):
    """What the server itself knows of a connection's other end."""

    address: str
    #: The subject of its verified TLS certificate, as `names.java_name` writes it; None without certificate.
    subject: str | None = None


class Settings(NamedTuple):
    """What the server's configuration says about schemes.

    None is nobody; "" would be the owner of a certificate without a name.
    """

    #: DigestAuthenticationProvider.superDigest: the digest identity that is the super user.
    super_digest: str | None = None
    #: X509AuthenticationProvider.superUser: the subject of the certificate that is the super user's.
    super_subject: str | None = None


Identities: TypeAlias = tuple[Identity, ...]


def nobody(peer: Peer, settings: Settings) -> Identities:
    """Nothing is known of a connection before it proves something."""
    return ()


def itself(name: str) -> str:
    """An id that is a user's name and no more."""
    return name


def same(identity: str, pattern: str) -> bool:
    """An entry of an ACL that means the identity that it names, and no other."""
    return identity == pattern


class Scheme(NamedTuple):
    """One scheme. All of its functions are pure and raise nothing, whatever a client sends."""

    name: str
    #: (credentials of an addauth packet, peer, settings) -> the identities that they prove, () if none.
    authenticate: Callable[[bytes | None, Peer, Settings], Identities]
    #: (identity's id, id of an ACL's entry) -> whether the entry means this identity.
    matches: Callable[[str, str], bool]
    #: Whether a client may write this id into an ACL.
    is_valid: Callable[[str], bool]
    #: Whether the scheme `auth` in an ACL stands for its identities (isAuthenticated).
    proves: bool = True
    #: (peer, settings) -> the identities that a connection has from its start.
    on_connect: Callable[[Peer, Settings], Identities] = nobody
    #: The user's name in an identity's id, which whoAmI and the audit log show (getUserName).
    user_name: Callable[[str], str] = itself
