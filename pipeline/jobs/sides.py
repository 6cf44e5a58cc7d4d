"""The trees that `verify` compares and `inspect` looks at, each named by one word on the command line.

/var/lib/zookeeper          a data directory of ZooKeeper, or its version-2
parquet:/path               a table of znodes
zk://host:2181,host:2181    a running ensemble, or zketcd, walked over the wire
etcd://host:2379/prefix     a tree of zketcd in etcd; etcds:// with TLS
"""

import argparse
import asyncio
import json
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pipeline.etcd.options import Connection
from pipeline.etcd.read import Survey as Seen
from pipeline.etcd.settle import settled
from pipeline.formats.directory import Survey
from pipeline.jobs import tables
from pipeline.jobs.failure import Usage
from pipeline.jobs.origin import add_auth_argument
from pipeline.live.walk import Walk
from pipeline.sources.zketcd import survey_option
from pipeline.sources.zookeeper_wire import ensemble_of, is_url
from schema.paths import ROOT

_ETCD = ("etcd://", "etcds://")
_ACCESS = ("etcd_ca", "etcd_cert", "etcd_key", "etcd_user", "etcd_password", "etcd_transport")


class Side(NamedTuple):
    """A tree."""

    name: str
    znodes: DataFrame
    on_the_wire: bool  # as clients see it: containers and TTL nodes look like others
    survey: Survey | None  # of a directory
    # Before the walk of a running ensemble: a larger one in a node tells of writes meanwhile.
    zxid: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say how to read sides."""
    tables.add_arguments(parser)
    add_auth_argument(parser)
    for name in _ACCESS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default="",
            help="as for `python -m proxy`; for etcd:// and etcds://",
        )


def side_of(spark: SparkSession, name: str, arguments: argparse.Namespace) -> Side:
    """The tree that a word names. Raises Failure, Usage, BadFile, WalkFailed."""
    if name.startswith(tables.PARQUET):
        return Side(name, tables.of_parquet(spark, name), False, None, None)
    if name.startswith(_ETCD):
        return _etcd(spark, name, arguments)
    if is_url(name):
        return _wire(spark, name, arguments)
    if "://" in name:
        raise Usage(f"{name} is none of {tables.PARQUET}DIRECTORY, zk://, etcd://, etcds:// or a directory")
    survey, frame = tables.of_directory(spark, name, arguments)
    return Side(name, frame, False, survey, None)


def _etcd(spark: SparkSession, name: str, arguments: argparse.Namespace) -> Side:
    scheme, _, rest = name.partition("://")
    hosts, slash, prefix = rest.partition("/")
    if not hosts or not prefix:
        raise Usage(f"{name} is not {scheme}://HOST:PORT/PREFIX")
    protocol = "https" if scheme == "etcds" else "http"
    endpoints = ",".join(f"{protocol}://{host}" for host in hosts.split(","))
    options = {"etcd": endpoints, "prefix": slash + prefix.rstrip("/")}
    given = {option.replace("_", "-"): getattr(arguments, option) for option in _ACCESS}
    connection = Connection.from_options(options | {name: value for name, value in given.items() if value})
    # Every action on the table reads the same snapshot.
    options = {**connection.options(), "snapshot": survey_option(asyncio.run(_settled(connection)))}
    return Side(name, spark.read.format("zketcd").options(**options).load(), False, None, None)


async def _settled(connection: Connection) -> Seen:
    async with connection.client() as etcd:
        return await settled(etcd, connection.keys)


def _wire(spark: SparkSession, name: str, arguments: argparse.Namespace) -> Side:
    auth = json.dumps([[identity.scheme, identity.identity.decode()] for identity in arguments.auth])
    ensemble = ensemble_of({"path": name, "auth": auth})
    walk = Walk(ensemble.servers, ensemble.identities, [ROOT], 0)
    asyncio.run(_exhaust(walk))
    frame = spark.read.format("zookeeper").option("auth", auth).load(name)
    return Side(name, frame, True, None, walk.first_zxid)


async def _exhaust(walk: Walk) -> None:
    async for _ in walk.rows():
        pass
