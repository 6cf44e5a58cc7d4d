"""The options for TLS with clients, and what they may not be together."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

CLIENT_AUTH = ("none", "want", "need")
LISTEN_TLS = ("detect", "only", "off")
MIN_VERSIONS = ("1.2", "1.3")


class ClientTls(NamedTuple):
    """How clients are served over TLS; not at all without `cert`. Files are PEM; "" leaves one out."""

    cert: str
    key: str
    key_password: str
    ca: str
    client_auth: str
    min_version: str
    ciphers: str  # OpenSSL's names, for TLS 1.2; "" for its default
    listen: str  # what the plain port does: one of LISTEN_TLS
    secure: tuple[str, int] | None  # a port for TLS only
    super_user: str  # the subject of the super user's certificate, "" for nobody

    @property
    def files(self) -> tuple[str, ...]:
        """What is read."""
        return tuple(file for file in (self.cert, self.key, self.ca) if file)


def add_options(
    add: Callable[..., Any], file: Callable[[str], str], address: Callable[[str], tuple[str, int]]
) -> None:
    """Declare the options, by argparse's `add_argument`; `file` and `address` check and read their values."""
    add(
        "--tls-cert", type=file, default="", metavar="FILE", help="PEM file of the server's certificate chain"
    )
    add("--tls-key", type=file, default="", metavar="FILE", help="PEM file of its key")
    add(
        "--tls-key-password", default="", metavar="WORD", help="of the key; better set by environment or file"
    )
    add(
        "--tls-ca",
        type=file,
        default="",
        metavar="FILE",
        help="PEM file of the CAs that clients' certificates are signed by",
    )
    add(
        "--tls-client-auth",
        choices=CLIENT_AUTH,
        default="need",
        help="whether clients are asked for a certificate, and must have one (ssl.clientAuth)",
    )
    add("--tls-min-version", choices=MIN_VERSIONS, default="1.2", help="oldest TLS that is spoken")
    add("--tls-ciphers", default="", metavar="LIST", help="OpenSSL's names, for TLS 1.2 (ssl.ciphersuites)")
    add(
        "--listen-tls",
        choices=LISTEN_TLS,
        default="detect",
        help="with --tls-cert, whether clients of --listen may speak TLS, must, or cannot"
        " (client.portUnification)",
    )
    add(
        "--secure-listen",
        type=lambda text: address(text) if text else None,
        default="",
        metavar="HOST:PORT",
        help="a second port, where clients must speak TLS (secureClientPort)",
    )
    add(
        "--x509-super-user",
        type=_subject,
        default="",
        metavar="SUBJECT",
        help="whose certificate may do all (zookeeper.X509AuthenticationProvider.superUser)",
    )


def read(given: Namespace) -> ClientTls:
    """The settings. Raises ValueError for what does not go together."""
    if bool(given.tls_cert) != bool(given.tls_key):
        raise ValueError("--tls-cert and --tls-key go together")
    if not given.tls_cert:
        for option in ("secure_listen", "tls_ca", "x509_super_user", "tls_ciphers", "tls_key_password"):
            if getattr(given, option):
                raise ValueError(f"--{option.replace('_', '-')} needs --tls-cert and --tls-key")
        if given.listen_tls == "only":
            raise ValueError("--listen-tls only needs --tls-cert and --tls-key")
    elif given.tls_client_auth != "none" and not given.tls_ca:
        raise ValueError(f"--tls-client-auth {given.tls_client_auth} needs --tls-ca")
    elif given.x509_super_user and given.tls_client_auth == "none":
        raise ValueError("--x509-super-user needs clients with certificates: --tls-client-auth want or need")
    return ClientTls(
        given.tls_cert,
        given.tls_key,
        given.tls_key_password,
        given.tls_ca,
        given.tls_client_auth,
        given.tls_min_version,
        given.tls_ciphers,
        given.listen_tls,
        given.secure_listen or None,
        given.x509_super_user,
    )


def _subject(text: str) -> str:
    if text and "=" not in text:
        raise ArgumentTypeError(f"{text!r} is not a subject such as CN=admin,O=Example")
    return text
