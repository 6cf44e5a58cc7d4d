"""Trees that are read where they are served or stored: in etcd, in an archive, or over the wire."""

import argparse
import asyncio

from pipeline.etcd import archived
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.etcd.read import Survey
from pipeline.etcd.tree import outline_of
from pipeline.jobs.tables import Side
from pipeline.live.address import servers_of
from pipeline.live.walk import Walk, node_count
from pipeline.running.table import Table
from pipeline.sources.zketcd_tree import ZketcdReader
from pipeline.sources.zookeeper_wire import Ensemble, WireReader
from schema.paths import ROOT


def in_etcd(name: str, arguments: argparse.Namespace) -> Side:
    """A tree of zketcd. Raises Failure, ValueError, EtcdError."""
    connection = Connection.from_url(name, arguments)
    return Side(name, asyncio.run(table_in_etcd(connection)), False, None, None)


def in_archive(name: str, arguments: argparse.Namespace) -> Side:
    """A moment of an archive. Raises Failure, ValueError."""
    seen = archived.survey_of(archived.machine_of(name, arguments.at))
    return Side(name, table_of(Connection(""), seen), False, None, None)


def table_of(connection: Connection, seen: Survey) -> Table:
    """The znodes of a tree that is known."""
    return Table(ZketcdReader(connection, seen), seen.nodes, seen.bytes)


async def table_in_etcd(connection: Connection) -> Table:
    """The znodes of a tree in etcd: every pass over them reads the same position. Raises Failure, EtcdError.

    If the log has to be replayed for that, the runner does it.
    """
    async with reached(connection) as etcd:
        found = await outline_of(etcd, connection.keys)
    return Table(ZketcdReader(connection, found.survey), found.nodes, found.bytes)


def on_the_wire(name: str, arguments: argparse.Namespace) -> Side:
    """A running ensemble. Raises WalkFailed, ValueError."""
    ensemble = Ensemble(servers_of(name), tuple(arguments.auth))
    walk = Walk(ensemble.servers, ensemble.identities, [ROOT], 0)
    asyncio.run(_exhaust(walk))
    return Side(name, Table(WireReader(ensemble), node_count(ensemble.servers)), True, None, walk.first_zxid)


async def _exhaust(walk: Walk) -> None:
    async for _ in walk.rows():
        pass
