"""What an authentication scheme is: ZooKeeper's AuthenticationProvider. Each has a file of its own."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from schema.entry import Identities as Identities
from schema.entry import Identity as Identity


class Remote(NamedTuple):
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


def no_identities(remote: Remote, settings: Settings) -> Identities:
    """A connection has no identity before it proves one."""
    return ()


def itself(name: str) -> str:
    """The user's name of an id that consists of nothing else."""
    return name


#: What an entry and an identity have in common if the entry means the identity. Clients choose the ids of
#: entries. So it is no number: Python does not salt their hashes, and a client could make very many equal.
Key: TypeAlias = str | bytes | None


def only(name: str) -> tuple[Key]:
    """The entry of an ACL means exactly the identity that it names."""
    return (name,)


class Scheme(NamedTuple):
    """One scheme. All of its functions are pure and raise nothing, whatever a client sends."""

    name: str
    #: (credentials of an addauth packet, remote, settings) -> the identities that they prove, () if none.
    authenticate: Callable[[bytes | None, Remote, Settings], Identities]
    #: (id of an ACL's entry) -> its keys. The entry means the identities that have one of them.
    keys_of_entry: Callable[[str], Iterable[Key]]
    #: (identity's id) -> its keys.
    keys_of_identity: Callable[[str], Iterable[Key]]
    #: Whether a client may write this id into an ACL.
    is_valid: Callable[[str], bool]
    #: Whether the scheme `auth` in an ACL stands for its identities (isAuthenticated).
    proves: bool = True
    #: (remote, settings) -> the identities that a connection has from its start.
    on_connect: Callable[[Remote, Settings], Identities] = no_identities
    #: The user's name in an identity's id, which whoAmI and the audit log show (getUserName).
    user_name: Callable[[str], str] = itself
