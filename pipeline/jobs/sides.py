"""The trees that `verify` compares and `inspect` looks at, each named by one word on the command line.

/var/lib/zookeeper          a data directory of ZooKeeper, or its version-2
parquet:/path               a table of znodes
zk://host:2181,host:2181    a running ensemble, or zketcd, walked over the wire
etcd://host:2379/prefix     a tree of zketcd in etcd; etcds:// with TLS
"""

import argparse
import asyncio
from typing import NamedTuple

from pipeline.errors import Failure
from pipeline.etcd.options import Connection
from pipeline.etcd.read import Survey
from pipeline.etcd.settle import settled
from pipeline.jobs import tables
from pipeline.jobs.origin import add_auth_argument
from pipeline.jobs.tables import Directory
from pipeline.live.node_count import node_count
from pipeline.live.walk import Walk
from pipeline.running.table import Table
from pipeline.sources.parquet import PREFIX as PARQUET
from pipeline.sources.zketcd_tree import ZketcdReader
from pipeline.sources.zookeeper_wire import Ensemble, WireReader, is_url, servers_of
from schema.paths import ROOT

_ETCD = ("etcd://", "etcds://")
_TLS = ("etcd_ca", "etcd_cert", "etcd_key", "etcd_user", "etcd_password")


class Side(NamedTuple):
    """A tree."""

    name: str
    znodes: Table
    on_the_wire: bool  # as clients see it: containers and TTL nodes look like others
    directory: Directory | None  # where it is one
    # Before the walk of a running ensemble: a larger one in a node tells of writes meanwhile.
    zxid: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say how to read sides."""
    tables.add_arguments(parser)
    add_auth_argument(parser)
    for name in _TLS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default="",
            help="as for `python -m proxy`; for etcd:// and etcds://",
        )


def side_of(name: str, arguments: argparse.Namespace) -> Side:
    """The tree that a word names. Raises Failure, BadFile, WalkFailed."""
    if name.startswith(PARQUET):
        return Side(name, tables.of_parquet(name), False, None, None)
    if name.startswith(_ETCD):
        return _etcd(name, arguments)
    if is_url(name):
        return _wire(name, arguments)
    if "://" in name:
        raise Failure(f"{name} is none of {PARQUET}DIRECTORY, zk://, etcd://, etcds:// or a directory")
    found = tables.of_directory(name, arguments)
    return Side(name, found.znodes, False, found, None)


def _etcd(name: str, arguments: argparse.Namespace) -> Side:
    scheme, _, rest = name.partition("://")
    hosts, slash, prefix = rest.partition("/")
    if not hosts or not prefix:
        raise Failure(f"{name} is not {scheme}://HOST:PORT/PREFIX")
    protocol = "https" if scheme == "etcds" else "http"
    endpoints = ",".join(f"{protocol}://{host}" for host in hosts.split(","))
    options = {"etcd": endpoints, "prefix": slash + prefix.rstrip("/")}
    given = {option.replace("_", "-"): getattr(arguments, option) for option in _TLS}
    connection = Connection.from_options(options | {name: value for name, value in given.items() if value})
    # Every pass over the table reads the same snapshot.
    seen = asyncio.run(_settled(connection))
    return Side(name, table_of(connection, seen), False, None, None)


def table_of(connection: Connection, seen: Survey) -> Table:
    """The znodes of a snapshot in etcd."""
    return Table(ZketcdReader(connection, seen=seen), seen.snapshot.nodes, seen.snapshot.bytes)


async def _settled(connection: Connection) -> Survey:
    async with connection.client() as etcd:
        return await settled(etcd, connection.keys)


def _wire(name: str, arguments: argparse.Namespace) -> Side:
    ensemble = Ensemble(servers_of(name), tuple(arguments.auth))
    walk = Walk(ensemble.servers, ensemble.identities, [ROOT], 0)
    asyncio.run(_exhaust(walk))
    return Side(name, Table(WireReader(ensemble), node_count(ensemble.servers)), True, None, walk.first_zxid)


async def _exhaust(walk: Walk) -> None:
    async for _ in walk.rows():
        pass
