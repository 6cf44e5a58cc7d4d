"""Where a tree is in etcd and how to connect: from a command line, or from options of Spark's data sources.

The names are those of `python -m serve`. A command line's `--etcd-ca` is the data source's option `etcd-ca`.
"""

import argparse
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import astuple
from typing import NamedTuple

from cli.connection import tree_in
from pipeline.addresses import CONFIG, etcd_and_prefix
from pipeline.options import ACCESS, default_of
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.options.etcd import DATA_DIR, DEFAULTS, PREFIX, EtcdAccess, check, embedded_url
from proxy.options.table import values_of
from proxy.options.values import EMBEDDED
from schema.keys import Keyspace


class Connection(NamedTuple):
    """Where a tree is in etcd, and how to connect. It has only strings, so that any process can use it."""

    etcd: str  # endpoints, separated by commas
    prefix: str = PREFIX
    access: EtcdAccess = DEFAULTS

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "Connection":
        """From Spark's options. Raises ValueError for a missing or wrong one."""
        if not options.get("etcd"):
            raise ValueError("the option etcd is missing: etcd's client URLs, separated by commas")
        texts = {each.dest: options.get(name, default_of(each)) for name, each in ACCESS.items()}
        access = EtcdAccess(**values_of(EtcdAccess, argparse.Namespace(**texts)))
        connection = cls(options["etcd"], options.get("prefix", PREFIX), access)
        check(access, connection.endpoints)
        Keyspace(connection.prefix)
        return connection

    @classmethod
    def from_url(cls, url: str, arguments: argparse.Namespace) -> "Connection":
        """From the name of a tree in etcd, with a command line that has the other options.

        `config:FILE` needs none of them. Raises ValueError, and OSError for that file.
        """
        if url.startswith(CONFIG):
            return cls._from_file(url.removeprefix(CONFIG))
        endpoints, prefix = etcd_and_prefix(url)
        return cls.from_options({"etcd": _found(endpoints, arguments), "prefix": prefix, **_given(arguments)})

    @classmethod
    def _from_file(cls, file: str) -> "Connection":
        access, prefix = tree_in(file)
        Keyspace(prefix)
        return cls(",".join(access.etcd), prefix, access.options)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "Connection":
        """From a command line that has the options of pipeline.options.add_etcd. Raises ValueError."""
        etcd = arguments.etcd or (EMBEDDED if arguments.data_dir else "")
        if not etcd:
            raise ValueError("--etcd is missing: etcd's client URLs, separated by commas")
        # An empty prefix is a mistake: the default would be another tree than the intended one.
        tree = {"etcd": _found(etcd, arguments), "prefix": arguments.prefix}
        return cls.from_options({**tree, **_given(arguments)})

    def options(self) -> dict[str, str]:
        """Spark's options for the same."""
        access = dict(zip(ACCESS, astuple(self.access), strict=True))
        texts = {"etcd": self.etcd, "prefix": self.prefix, **access}
        return {name: text for name, text in texts.items() if text}

    @property
    def endpoints(self) -> tuple[str, ...]:
        """etcd's client URLs."""
        return tuple(endpoint.strip() for endpoint in self.etcd.split(","))

    @property
    def keys(self) -> Keyspace:
        """The keys of the tree."""
        return Keyspace(self.prefix)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[EtcdClient]:
        """A client in the running loop. Raises ValueError for a bad endpoint, OSError for a missing file."""
        client = Access(self.endpoints, self.access).client()
        try:
            yield client
        finally:
            await client.close()


def _found(etcd: str, arguments: argparse.Namespace) -> str:
    """The client URLs that a command line means."""
    return embedded_url(arguments.data_dir or DATA_DIR) if etcd == EMBEDDED else etcd


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of access that a command line has, by their names for Spark."""
    texts = {name: getattr(arguments, each.dest) for name, each in ACCESS.items()}
    return {name: text for name, text in texts.items() if text}
