"""Scheme `sasl`: a user who has proved itself by SASL (SASLAuthenticationProvider).

The proof is an exchange of sasl packets (`proxy.frontend.identity`), never an addauth.
"""

import re

from proxy.state.auth.scheme import Identities, Identity, Key, Remote, Scheme, Settings

# A Kerberos name of at most two components (KerberosName.nameParser).
_PRINCIPAL = re.compile(r"[^/@]*(?:/[^/@]*)?@[^/@]*")
# Every entry of scheme sasl permits this user, whatever zookeeper.superUser is.
_SUPER = "super"
_ANY = None  # the key of every entry


def sasl_identities(name: str, *, is_super: bool) -> Identities:
    """The identities of a client that has proved to be this user (ZooKeeperServer.processSasl)."""
    identity = Identity("sasl", name)
    return (identity, Identity("super", "")) if is_super else (identity,)


def _authenticate(credentials: bytes | None, remote: Remote, settings: Settings) -> Identities:
    return ()


def _keys_of_entry(name: str) -> tuple[Key, ...]:
    return name, _ANY


def _keys_of_identity(name: str) -> tuple[Key, ...]:
    return (name, _ANY) if name == _SUPER else (name,)


def _is_valid(name: str) -> bool:
    return "@" not in name or _PRINCIPAL.fullmatch(name) is not None


SASL = Scheme("sasl", _authenticate, _keys_of_entry, _keys_of_identity, _is_valid)
