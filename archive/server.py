"""The options that name a server and the caller's identities, for commands that write as a client does."""

import os
import ssl
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from archive.client import Client
from proxy import option_values as values

_VARIABLE = "ZKETCD_AUTH"


def identity(text: str) -> tuple[str, bytes]:
    """SCHEME:ID, for argparse."""
    scheme, colon, name = text.partition(":")
    if not colon or not scheme:
        raise ArgumentTypeError("it is not SCHEME:ID")
    return scheme, name.encode()


def add_server(made: ArgumentParser) -> None:
    """Add them."""
    add = made.add_argument
    add(
        "--server",
        type=values.address,
        default="127.0.0.1:2181",
        metavar="HOST:PORT",
        help="the proxy to write to",
    )
    for name, what in (
        ("--server-ca", "connect to --server with TLS, and verify it by this CA: a PEM file"),
        ("--server-cert", "certificate to show to --server: a PEM file"),
        ("--server-key", "key of --server-cert: a PEM file"),
    ):
        add(name, type=values.file, default="", metavar="FILE", help=what)
    add("--server-user", default="", metavar="NAME", help="authenticate by SASL (DIGEST-MD5) with this name")
    add(
        "--server-password",
        default="",
        metavar="WORD",
        help="password of --server-user; safer as ZKETCD_SERVER_PASSWORD in the environment",
    )
    add(
        "--auth",
        type=identity,
        action="append",
        default=[],
        metavar="SCHEME:ID",
        help="an identity to write with, such as digest:user:password; may be repeated."
        " Safer as ZKETCD_AUTH in the environment",
    )


def connected(given: Any, made: Any) -> Client:
    """A session as the options say; `made` is the parser, which ends the process for wrong ones.

    Raises OSError, Refused.
    """
    if bool(given.server_user) != bool(given.server_password):
        made.error("--server-user and --server-password must be given together")
    if bool(given.server_cert) != bool(given.server_key) or (given.server_cert and not given.server_ca):
        made.error("--server-cert and --server-key must be given together, with --server-ca")
    tls = None
    if given.server_ca:
        tls = ssl.create_default_context(cafile=given.server_ca)
        if given.server_cert:
            tls.load_cert_chain(given.server_cert, given.server_key)
    identities = list(given.auth)
    if variable := os.environ.get(_VARIABLE):
        try:
            identities.append(identity(variable))
        except ArgumentTypeError as error:
            made.error(f"{_VARIABLE}: {error}")
    return Client(
        given.server,
        identities,
        tls,
        (given.server_user, given.server_password) if given.server_user else None,
    )
