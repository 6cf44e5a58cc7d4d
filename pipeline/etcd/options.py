"""Where a tree is in etcd and how to connect: from a command line, or from options of Spark's data sources.

The names are those of `python -m serve`. A command line's `--etcd-ca` is the data source's option `etcd-ca`.
"""

import argparse
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import astuple
from typing import NamedTuple

from cli.connection import access_to, endpoints, tree_in, tree_of
from pipeline.addresses import CONFIG, etcd_and_prefix
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.etcd.status_poller import ReadMetrics
from proxy.options.etcd import DATA_DIR, DEFAULTS, PREFIX, EtcdAccess, embedded_url
from proxy.options.table import options_of
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
        return cls._of(*tree_of(options))

    @classmethod
    def from_url(cls, url: str, arguments: argparse.Namespace) -> "Connection":
        """From the name of a tree in etcd, with a command line that has the other options.

        `config:FILE` needs none of them. Raises ValueError, and OSError for that file.
        """
        if url.startswith(CONFIG):
            return cls._of(*tree_in(url.removeprefix(CONFIG)))
        etcd, prefix = etcd_and_prefix(url)
        Keyspace(prefix)
        if etcd == EMBEDDED:
            etcd = embedded_url(arguments.data_dir or DATA_DIR)
        return cls._of(access_to(tuple(etcd.split(",")), arguments), prefix)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "Connection":
        """From a command line that has the options of a tree. Raises ValueError."""
        if arguments.etcd is None and arguments.data_dir is None:
            raise ValueError("--etcd is missing: etcd's client URLs, separated by commas")
        return cls._of(access_to(endpoints(arguments), arguments), arguments.prefix)

    @classmethod
    def _of(cls, access: Access, prefix: str) -> "Connection":
        return cls(",".join(access.etcd), prefix, access.options)

    def options(self) -> dict[str, str]:
        """Spark's options for the same."""
        names = [each.name.removeprefix("--") for each in options_of(EtcdAccess)]
        access = dict(zip(names, astuple(self.access), strict=True))
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

    def metrics_reader(self) -> ReadMetrics:
        """Reads etcd's metrics. Raises OSError, ValueError for a file that cannot be used."""
        access = Access(self.endpoints, self.access)
        return access.metrics_reader(access.tls())

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[EtcdClient]:
        """A client in the running loop. Raises ValueError for a bad endpoint, OSError for a missing file."""
        client = Access(self.endpoints, self.access).client()
        try:
            yield client
        finally:
            await client.close()
