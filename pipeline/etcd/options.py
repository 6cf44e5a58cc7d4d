"""How to reach etcd and which prefix: the same names on the command line, in the environment and for Spark.

The names are those of `python -m proxy`. A command line's `--etcd-ca` is the data source's option `etcd-ca`.
"""

import argparse
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from pipeline.etcd.address import ACCESS, taken_apart
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.etcd.transport import HTTP2, TRANSPORTS
from schema.keys import Keyspace


class Connection(NamedTuple):
    """Where a tree is in etcd, and how to connect. It has only strings, so that any process can use it."""

    etcd: str  # endpoints, separated by commas
    prefix: str = "/zketcd"
    etcd_ca: str = ""
    etcd_cert: str = ""
    etcd_key: str = ""
    etcd_user: str = ""
    etcd_password: str = ""
    etcd_password_file: str = ""
    etcd_transport: str = HTTP2

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "Connection":
        """From Spark's options. Raises ValueError for a missing or wrong one."""
        names = {name.replace("_", "-"): name for name in cls._fields}
        given = {name: options[option] for option, name in names.items() if option in options}
        if not given.get("etcd"):
            raise ValueError("the option etcd is missing: etcd's client URLs, separated by commas")
        transport = given.get("etcd_transport", HTTP2)
        if transport not in TRANSPORTS:
            raise ValueError(f"etcd-transport is {' or '.join(TRANSPORTS)}, not {transport}")
        connection = cls(**given)
        connection.access.check()
        Keyspace(connection.prefix)
        return connection

    @classmethod
    def from_url(cls, url: str, arguments: argparse.Namespace) -> "Connection":
        """From the name of a tree in etcd, with a command line that has the other options.

        Raises ValueError.
        """
        endpoints, prefix = taken_apart(url)
        options = {"etcd": endpoints, "prefix": prefix}
        given = {name.replace("_", "-"): getattr(arguments, name) for name in ACCESS}
        return cls.from_options(options | {name: value for name, value in given.items() if value})

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "Connection":
        """From a command line that has the options of `add_arguments`. Raises ValueError."""
        options = {name.replace("_", "-"): getattr(arguments, name) for name in cls._fields}
        # An empty prefix is a mistake: the default would be another tree than the intended one.
        return cls.from_options({name: value for name, value in options.items() if value or name == "prefix"})

    def options(self) -> dict[str, str]:
        """Spark's options for the same."""
        return {name.replace("_", "-"): value for name, value in self._asdict().items() if value}

    @property
    def keys(self) -> Keyspace:
        """The keys of the tree."""
        return Keyspace(self.prefix)

    @property
    def access(self) -> Access:
        """How to reach etcd."""
        return Access(
            tuple(endpoint.strip() for endpoint in self.etcd.split(",")),
            **{name.removeprefix("etcd_"): getattr(self, name) for name in ACCESS},
        )

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[EtcdClient]:
        """A client in the running loop. Raises ValueError for a bad endpoint, OSError for a missing file."""
        client = self.access.client()
        try:
            yield client
        finally:
            await client.close()


_HELP = {
    "etcd": ("ENDPOINTS", "etcd's client URLs, separated by commas"),
    "prefix": ("PREFIX", "etcd prefix of the tree"),
    "etcd_ca": ("FILE", "PEM file of the CA that signed etcd's certificate"),
    "etcd_cert": ("FILE", "PEM file of the client certificate for etcd"),
    "etcd_key": ("FILE", "PEM file of the client certificate's key"),
    "etcd_user": ("NAME", "etcd user, if etcd has authentication enabled"),
    "etcd_password": ("WORD", "password of --etcd-user; safer in the environment, ZKETCD_ETCD_PASSWORD"),
    "etcd_password_file": ("FILE", "file with the password of --etcd-user"),
    "etcd_transport": (
        "|".join(TRANSPORTS),
        "implementation of gRPC: http2 is built in, grpcio is for gateways that http2 fails with",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m proxy` that say where the tree is, and its environment ZKETCD_..."""
    for name, (metavar, text) in _HELP.items():
        default = os.environ.get(f"ZKETCD_{name.upper()}", Connection._field_defaults.get(name, ""))
        shown = "" if name == "etcd_password" or not default else f" (default: {default})"
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar=metavar, default=default, help=text + shown
        )
