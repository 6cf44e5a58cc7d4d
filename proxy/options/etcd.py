"""The options that say how to reach etcd and under which identity: the same for every program that does."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from proxy.options.table import file_option, option
from proxy.support.files import bounded

HTTP2 = "http2"
GRPCIO = "grpcio"
TRANSPORTS = (HTTP2, GRPCIO)

PREFIX = "/zketcd"
"""Of the keys of a tree, where none is given."""

DATA_DIR = "data"
"""That of the embedded etcd, where none is given."""

EMBEDDED_SOCKET = ("sockets", "client:0")
"""Where the embedded etcd listens for clients, below its data directory: a folder and a name in it.

etcd 3.4 wants a name with a port in it.
"""

_LONGEST_PASSWORD = 4096  # bytes


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Certificates are PEM files; "" means none."""

    ca: str = file_option(
        "PEM file of the CA that signed etcd's certificate; refused with http:// endpoints", name="--etcd-ca"
    )
    cert: str = file_option("PEM file of the certificate that zketcd shows to etcd", name="--etcd-cert")
    key: str = file_option(
        "PEM file of the key of --etcd-cert, without a password", name="--etcd-key", secret_file=True
    )
    user: str = option("etcd user, if etcd has authentication enabled", name="--etcd-user", metavar="NAME")
    password: str = option(
        "password of --etcd-user; safer in the environment or in a file than on the command line",
        name="--etcd-password",
        metavar="WORD",
        secret=True,
    )
    password_file: str = file_option(
        "file with the password of --etcd-user as its only line, 4,096 bytes at most; read whenever zketcd"
        " authenticates, so that the password can be changed (docs/etcd.md)",
        name="--etcd-password-file",
        secret_file=True,
    )
    transport: str = option(
        "implementation of gRPC: http2 is built in and faster; grpcio is for gateways that http2 fails"
        " with, and needs a library of its own (docs/install.md)",
        name="--etcd-transport",
        choices=TRANSPORTS,
        default=HTTP2,
    )


DEFAULTS = EtcdAccess("", "", "", "", "", "", HTTP2)
"""Of an etcd without TLS and authentication."""


def embedded_url(data_dir: str | Path) -> str:
    """The URL of the embedded etcd that keeps its data there, whether it runs or not."""
    return f"unix://{quote(str(Path(data_dir, *EMBEDDED_SOCKET).absolute()), safe='/:')}"


def check(access: EtcdAccess, endpoints: Sequence[str]) -> None:
    """Raises ValueError for what cannot be used; blocks.

    That is an option without its partner, TLS that would not be used, and a password that cannot be sent.
    """
    if access.transport not in TRANSPORTS:
        raise ValueError(f"--etcd-transport is {' or '.join(TRANSPORTS)}, not {access.transport}")
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
    for name, text in (("--etcd-user", access.user), ("--etcd-password", access.password)):
        try:
            text.encode()
        except UnicodeEncodeError:  # etcd takes nothing else
            raise ValueError(f"{name}: it is not UTF-8") from None
    if access.password_file:
        read_password(access.password_file)


def read_password(file: str) -> str:
    """The password in a file: its only line. Blocks; raises ValueError."""
    try:
        return _only_line(_content(Path(file)))
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except OSError as error:
        why = error.strerror or str(error)
    except ValueError as error:
        why = str(error)
    raise ValueError(f"--etcd-password-file {file}: {why}")


def _content(file: Path) -> bytes:
    """What is in a small file. Raises OSError, ValueError."""
    if not stat.S_ISREG(file.stat().st_mode):  # to open a pipe may wait for ever
        raise ValueError("it is not a regular file")
    with file.open("rb") as opened:
        return bounded(opened, _LONGEST_PASSWORD)


def _only_line(content: bytes) -> str:
    """Raises ValueError."""
    text = content.decode("utf-8-sig")  # with the mark that editors of Windows put before UTF-8
    line = text.removesuffix("\n").removesuffix("\r")
    if not line:
        raise ValueError("it is empty")
    if "\n" in line or "\r" in line:
        raise ValueError("it has more than one line")
    return line
