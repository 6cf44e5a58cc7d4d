"""The table of authentication schemes, and those that a server offers (ProviderRegistry)."""

from typing import NamedTuple

from proxy.state.auth.digest import DIGEST
from proxy.state.auth.ip import IP
from proxy.state.auth.sasl import SASL
from proxy.state.auth.scheme import Identities, Identity, Remote, Scheme, Settings
from proxy.state.auth.x509 import X509

SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in (DIGEST, IP, SASL, X509)}
#: What every server offers; ACLs of other schemes are INVALIDACL there.
ALWAYS = frozenset((DIGEST.name, IP.name))
# The schemes of servers that accept certificates of clients, or SASL, or both.
_OFFERS = {
    (has_x509, has_sasl): ALWAYS | frozenset((X509.name,) * has_x509 + (SASL.name,) * has_sasl)
    for has_x509 in (False, True)
    for has_sasl in (False, True)
}


def offered(*, x509: bool, sasl: bool) -> frozenset[str]:
    """The schemes of a server, which may accept certificates of clients, and SASL."""
    return _OFFERS[x509, sasl]


def user_of(identity: Identity) -> str:
    """The user's name, without what proves it (AuthUtil.getUsers); "" for `super`, which is no scheme."""
    scheme = SCHEMES.get(identity.scheme)
    return "" if scheme is None else scheme.user_name(identity.id)


def named(identity: Identity) -> str:
    """Scheme and user, as operators see them."""
    return f"{identity.scheme}:{user_of(identity)}"


class AuthSchemes(NamedTuple):
    """The schemes that one server offers, with its settings for them."""

    names: frozenset[str] = ALWAYS
    settings: Settings = Settings()

    def identities(self, remote: Remote) -> Identities:
        """The identities of a client that has just connected."""
        return tuple(
            identity
            for scheme in SCHEMES.values()
            if scheme.name in self.names
            for identity in scheme.on_connect(remote, self.settings)
        )

    def authenticate(self, name: str | None, credentials: bytes | None, remote: Remote) -> Identities:
        """The identities that an addauth packet proves; () if it fails."""
        if name is None or name not in self.names:
            return ()
        return SCHEMES[name].authenticate(credentials, remote, self.settings)
