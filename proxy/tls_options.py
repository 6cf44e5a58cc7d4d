"""The options for TLS with clients, and which of them exclude or need each other."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

CLIENT_AUTH = ("none", "want", "need")
LISTEN_TLS = ("detect", "only", "off")
MIN_VERSIONS = ("1.2", "1.3")


class ClientTls(NamedTuple):
    """How clients are served over TLS; without `cert` they are not. Files are PEM; "" means none."""

    cert: str
    key: str
    key_password: str
    ca: str
    client_auth: str
    min_version: str
    ciphers: str  # OpenSSL's names, for TLS 1.2; "" for its default
    listen: str  # whether the port of --listen takes TLS: one of LISTEN_TLS
    secure: tuple[str, int] | None  # a port that takes only TLS
    super_user: str  # the subject of the super user's certificate, "" for none

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(file for file in (self.cert, self.key, self.ca) if file)


def add_options(
    add: Callable[..., Any], file: Callable[[str], str], address: Callable[[str], tuple[str, int]]
) -> None:
    """Declare the options with argparse's `add_argument`; `file` and `address` check and convert values."""
    add(
        "--tls-cert",
        type=file,
        default="",
        metavar="FILE",
        help="PEM file of this server's certificate chain",
    )
    add("--tls-key", type=file, default="", metavar="FILE", help="PEM file of the key of --tls-cert")
    add(
        "--tls-key-password",
        default="",
        metavar="WORD",
        help="password of --tls-key; safer in the environment or in a file than on the command line",
    )
    add(
        "--tls-ca",
        type=file,
        default="",
        metavar="FILE",
        help="PEM file of the CAs that sign the certificates of clients",
    )
    add(
        "--tls-client-auth",
        choices=CLIENT_AUTH,
        default="need",
        help="whether clients may show a certificate (want), must show one (need), or are not asked (none)"
        " (ssl.clientAuth)",
    )
    add(
        "--tls-min-version",
        choices=MIN_VERSIONS,
        default="1.2",
        help="oldest version of TLS that is accepted",
    )
    add(
        "--tls-ciphers",
        default="",
        metavar="LIST",
        help="cipher suites for TLS 1.2, in OpenSSL's names (ssl.ciphersuites)",
    )
    add(
        "--listen-tls",
        choices=LISTEN_TLS,
        default="detect",
        help="with --tls-cert, which clients the port of --listen takes: with and without TLS (detect), only"
        " with TLS (only), or only without (off) (client.portUnification)",
    )
    add(
        "--secure-listen",
        type=lambda text: address(text) if text else None,
        default="",
        metavar="HOST:PORT",
        help="a second port, which takes only clients with TLS (secureClientPort)",
    )
    add(
        "--x509-super-user",
        type=_subject,
        default="",
        metavar="SUBJECT",
        help="subject of the certificate that has all permissions"
        " (zookeeper.X509AuthenticationProvider.superUser)",
    )


def read(given: Namespace) -> ClientTls:
    """The settings. Raises ValueError for options that exclude each other or lack a partner."""
    if bool(given.tls_cert) != bool(given.tls_key):
        raise ValueError("--tls-cert and --tls-key must be given together")
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
