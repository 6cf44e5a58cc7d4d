"""The options that say how to reach etcd and under which identity: the same for every program that does."""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy import option_values as values
from proxy.option_table import option


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Certificates are PEM files; "" means none."""

    ca: str = option(
        "PEM file of the CA that signed etcd's certificate",
        name="--etcd-ca",
        type=values.file,
        metavar="FILE",
    )
    cert: str = option(
        "PEM file of the certificate that zketcd shows to etcd",
        name="--etcd-cert",
        type=values.file,
        metavar="FILE",
    )
    key: str = option(
        "PEM file of the key of --etcd-cert",
        name="--etcd-key",
        type=values.file,
        metavar="FILE",
        secret_file=True,
    )
    user: str = option("etcd user, if etcd has authentication enabled", name="--etcd-user", metavar="NAME")
    password: str = option(
        "password of --etcd-user; safer in the environment or in a file than on the command line",
        name="--etcd-password",
        metavar="WORD",
        secret=True,
    )
    password_file: str = option(
        "file with the password of --etcd-user, read whenever zketcd authenticates",
        name="--etcd-password-file",
        type=values.file,
        metavar="FILE",
        secret_file=True,
    )


def check(access: EtcdAccess, endpoints: Sequence[str]) -> None:
    """Raises ValueError for an option without its partner, and for TLS that would not be used."""
    if bool(access.cert) != bool(access.key):
        raise ValueError("--etcd-cert and --etcd-key must be given together")
    if access.password and access.password_file:
        raise ValueError("--etcd-password and --etcd-password-file exclude each other")
    if bool(access.user) != bool(access.password or access.password_file):
        raise ValueError("--etcd-user and --etcd-password or --etcd-password-file must be given together")
    if (access.ca or access.cert) and not all(each.startswith("https://") for each in endpoints):
        raise ValueError(
            "--etcd-ca and --etcd-cert are for https:// endpoints: connections to others are not encrypted"
        )
