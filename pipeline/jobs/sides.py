"""The trees that `verify` compares and `inspect` reads, each named by one word on the command line.

/var/lib/zookeeper          a data directory of ZooKeeper, or its version-2
parquet:/path               a table of znodes
zk://host:2181,host:2181    a running ensemble, or zketcd, walked over the wire
etcd://host:2379/prefix     a tree of zketcd in etcd; etcds:// with TLS
etcd://host:2379?prefix=x   the same, for a prefix that does not begin with a slash
archive:/path               a moment of an archive (--at); archive:s3://bucket/path
"""

import argparse

from pipeline.errors import Failure
from pipeline.etcd import archived
from pipeline.etcd.address import add_access
from pipeline.etcd.address import is_url as is_in_etcd
from pipeline.jobs import tables
from pipeline.jobs.summary import add_auth_argument
from pipeline.jobs.tables import Side
from pipeline.live.address import is_url
from pipeline.sources.parquet import PREFIX as PARQUET


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading trees."""
    tables.add_arguments(parser)
    archived.add_argument(parser)
    add_auth_argument(parser)
    add_access(parser.add_argument_group("for etcd:// and etcds://, also as ZKETCD_ETCD_..."))


def side_of(name: str, arguments: argparse.Namespace) -> Side:
    """The tree that a word names. Raises Failure, BadFile, WalkFailed."""
    if name.startswith(PARQUET):
        return Side(name, tables.of_parquet(name), False, None, None)
    if name.startswith(archived.PREFIX):
        from pipeline.jobs import live_sides

        return live_sides.in_archive(name, arguments)
    if is_in_etcd(name):
        from pipeline.jobs import live_sides

        return live_sides.in_etcd(name, arguments)
    if is_url(name):
        from pipeline.jobs import live_sides

        return live_sides.on_the_wire(name, arguments)
    if "://" in name:
        urls = f"{PARQUET}DIRECTORY, zk://, etcd://, etcds://, {archived.PREFIX}URL"
        raise Failure(f"{name} is none of {urls} or a directory")
    found = tables.of_directory(name, arguments)
    return Side(name, found.znodes, False, found, None)
