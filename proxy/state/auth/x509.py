"""Scheme `x509`: the subject of a client's TLS certificate (X509AuthenticationProvider).

The TLS handshake has verified the certificate. Here only its name is used.
"""

from proxy.state.auth.der import subject_of
from proxy.state.auth.names import is_name, java_name
from proxy.state.auth.scheme import Identities, Identity, Remote, Scheme, Settings, only


def subject_name(certificate: bytes) -> str:
    """The identity's id for a certificate in DER. Raises ValueError if it is not one."""
    return java_name(subject_of(certificate))


def _on_connect(remote: Remote, settings: Settings) -> Identities:
    if remote.subject is None:
        return ()
    identity = Identity("x509", remote.subject)
    if remote.subject == settings.super_subject:
        return (Identity("super", remote.subject), identity)
    return (identity,)


def _authenticate(credentials: bytes | None, remote: Remote, settings: Settings) -> Identities:
    return _on_connect(remote, settings)


X509 = Scheme("x509", _authenticate, only, only, is_name, on_connect=_on_connect)
