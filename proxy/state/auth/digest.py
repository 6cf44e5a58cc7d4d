"""Scheme `digest`: `user:password`, known by its hash (DigestAuthenticationProvider)."""

import base64
import hashlib

from proxy.state.auth.scheme import Identities, Identity, Remote, Scheme, Settings, only


def digest_identity(credentials: bytes) -> Identity:
    """The identity that `user:password` proves, as DigestAuthenticationProvider.generateDigest names it."""
    text = credentials.decode("utf-8", "replace")
    digest = base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()
    return Identity("digest", f"{text.partition(':')[0]}:{digest}")


def _authenticate(credentials: bytes | None, remote: Remote, settings: Settings) -> Identities:
    if credentials is None:
        return ()
    identity = digest_identity(credentials)
    if identity.id == settings.super_digest:
        return (Identity("super", ""), identity)
    return (identity,)


def _is_valid(name: str) -> bool:
    # Java's split drops empty strings at the end
    return len(name.rstrip(":").split(":", 2)) == 2


def _user_name(name: str) -> str:
    return name.partition(":")[0]


DIGEST = Scheme("digest", _authenticate, only, only, _is_valid, user_name=_user_name)
