"""The table of authentication schemes, and those that a server offers (ProviderRegistry)."""

from collections.abc import Iterable
from typing import NamedTuple

from proxy.state.auth.digest import DIGEST
from proxy.state.auth.ip import IP
from proxy.state.auth.scheme import Identities, Peer, Scheme, Settings
from proxy.state.auth.x509 import X509

SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in (DIGEST, IP, X509)}
#: What every server offers; ACLs of other schemes are INVALIDACL there.
ALWAYS = frozenset((DIGEST.name, IP.name))
#: The same of a server that takes certificates of clients.
WITH_X509 = ALWAYS | {X509.name}


class Offer(NamedTuple):
    """The schemes of one server, and what its configuration says about them."""

    names: frozenset[str] = ALWAYS
    settings: Settings = Settings()

    def identities(self, peer: Peer) -> Identities:
        """Who a client is as soon as it has connected."""
        return tuple(
            identity
            for scheme in SCHEMES.values()
            if scheme.name in self.names
            for identity in scheme.on_connect(peer, self.settings)
        )

    def authenticate(self, name: str | None, credentials: bytes | None, peer: Peer) -> Identities:
        """The identities that an addauth packet proves; () if it fails."""
        if name is None or name not in self.names:
            return ()
        return SCHEMES[name].authenticate(credentials, peer, self.settings)


def offer(extra: Iterable[str], settings: Settings) -> Offer:
    """The schemes that every server has, and the `extra` ones that this one is configured for."""
    return Offer(ALWAYS | frozenset(extra), settings)
