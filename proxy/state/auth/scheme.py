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

    None: there is no such user. "" would be the owner of a certificate without a name.
    """

    #: DigestAuthenticationProvider.superDigest: the digest identity that is the super user.
    super_digest: str | None = None
    #: X509AuthenticationProvider.superUser: the subject of the certificate that is the super user's.
    super_subject: str | None = None


Identities: TypeAlias = tuple[Identity, ...]


def no_identities(peer: Peer, settings: Settings) -> Identities:
    """A connection has no identity before it proves one."""
    return ()


def itself(name: str) -> str:
    """The user's name of an id that consists of nothing else."""
    return name


def same(identity: str, pattern: str) -> bool:
    """The entry of an ACL means exactly the identity that it names."""
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
    on_connect: Callable[[Peer, Settings], Identities] = no_identities
    #: The user's name in an identity's id, which whoAmI and the audit log show (getUserName).
    user_name: Callable[[str], str] = itself
