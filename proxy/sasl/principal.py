"""The name that an authenticated user has in ACLs (SaslServerCallbackHandler, KerberosName). Pure."""

import re
from typing import NamedTuple

_PRINCIPAL = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")


class Naming(NamedTuple):
    """How principals become names."""

    #: The realm whose principals are mapped. Others stay whole: no user gets a name of another realm.
    realm: str = ""
    remove_host: bool = False  # kerberos.removeHostFromPrincipal
    remove_realm: bool = False  # kerberos.removeRealmFromPrincipal

    def name_of(self, principal: str) -> str:
        """The name of an authenticated principal, or of a user of DIGEST-MD5, most of which have no realm."""
        parts = _PRINCIPAL.fullmatch(principal)
        if parts is None or parts[3] != self.realm:
            return principal
        name = parts[1]
        if parts[2] is not None and not self.remove_host:
            name += f"/{parts[2]}"
        return name if self.remove_realm else f"{name}@{parts[3]}"


def realm_of(principal: str) -> str:
    """The realm of service/host@REALM. Raises ValueError for a name of another form."""
    parts = _PRINCIPAL.fullmatch(principal)
    if parts is None or not parts[1] or not parts[2] or not parts[3]:
        raise ValueError(f"{principal!r} is not SERVICE/HOST@REALM")
    return parts[3]
