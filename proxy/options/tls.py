"""The options for TLS with clients, and which of them exclude or need each other."""

from argparse import ArgumentTypeError
from dataclasses import dataclass

from proxy.options import values
from proxy.options import zoo_values as zoo
from proxy.options.table import file_option, option

CLIENT_AUTH = ("none", "want", "need")
LISTEN_TLS = ("detect", "only", "off")
MIN_VERSIONS = ("1.2", "1.3")


def _subject(text: str) -> str:
    if text and "=" not in text:
        raise ArgumentTypeError(f"{text!r} is not a subject such as CN=admin,O=Example")
    return text


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How clients are served over TLS; without `cert` they are not. Files are PEM; "" means none."""

    cert: str = file_option("PEM file of this server's certificate chain", name="--tls-cert")
    key: str = file_option("PEM file of the key of --tls-cert", name="--tls-key", secret_file=True)
    key_password: str = option(
        "password of --tls-key; safer in the environment or in a file than on the command line",
        name="--tls-key-password",
        metavar="WORD",
        zoo={"ssl.keyStore.password": str, "ssl.keyStore.passwordPath": zoo.first_line},
        secret=True,
    )
    ca: str = file_option(
        "PEM file of the CAs that sign clients' certificates, for --tls-client-auth want and need",
        name="--tls-ca",
    )
    client_auth: str = option(
        "whether clients may show a certificate (want), must show one (need), or are not asked (none)"
        " (ssl.clientAuth)",
        name="--tls-client-auth",
        choices=CLIENT_AUTH,
        default="need",
        zoo={"ssl.clientAuth": str.lower},
    )
    min_version: str = option(
        "oldest version of TLS that is accepted (ssl.enabledProtocols)",
        name="--tls-min-version",
        choices=MIN_VERSIONS,
        default="1.2",
        zoo={"ssl.enabledProtocols": zoo.oldest_tls},
    )
    ciphers: str = option(
        "cipher suites for TLS 1.2, in OpenSSL's names; all of TLS 1.3 are allowed (ssl.ciphersuites)",
        name="--tls-ciphers",
        metavar="LIST",
    )
    listen: str = option(
        "with --tls-cert, which clients the port of --listen takes: with and without TLS (detect), only"
        " with TLS (only), or only without (off) (client.portUnification)",
        name="--listen-tls",
        choices=LISTEN_TLS,
        default="detect",
    )
    secure: tuple[str, int] | None = option(
        "a second port, which takes only clients with TLS (secureClientPort)",
        name="--secure-listen",
        type=lambda text: values.address(text) if text else None,
        metavar="HOST:PORT",
    )
    super_user: str = option(
        "subject of the certificate that has all permissions"
        " (zookeeper.X509AuthenticationProvider.superUser)",
        name="--x509-super-user",
        type=_subject,
        metavar="SUBJECT",
        zoo="X509AuthenticationProvider.superUser",
    )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(file for file in (self.cert, self.key, self.ca) if file)


def check(tls: ClientTls) -> None:
    """Raises ValueError for options that exclude each other or lack a partner."""
    if bool(tls.cert) != bool(tls.key):
        raise ValueError("--tls-cert and --tls-key must be given together")
    if not tls.cert:
        for name, value in (
            ("--secure-listen", tls.secure),
            ("--tls-ca", tls.ca),
            ("--x509-super-user", tls.super_user),
            ("--tls-ciphers", tls.ciphers),
            ("--tls-key-password", tls.key_password),
            ("--listen-tls only", tls.listen == "only"),
        ):
            if value:
                raise ValueError(f"{name} needs --tls-cert and --tls-key")
    elif tls.client_auth != "none" and not tls.ca:
        raise ValueError(f"--tls-client-auth {tls.client_auth} needs --tls-ca")
    elif tls.super_user and tls.client_auth == "none":
        raise ValueError("--x509-super-user needs clients with certificates: --tls-client-auth want or need")
