"""How a command line names a tree. Pure.

/var/lib/zookeeper                  a data directory of ZooKeeper, or its version-2
parquet:/path                       a table of znodes
zk://HOST:PORT,HOST:PORT            a running ensemble, or zketcd, walked over the wire
http://HOST:PORT[/COMMAND-URL]      the admin server of a running ZooKeeper 3.9
etcd://HOST:PORT,.../PREFIX         a tree of zketcd in etcd; its prefix begins with a slash
etcd://HOST:PORT,...?prefix=PREFIX  the same with any prefix, as --prefix has it
etcds://...                         the same with TLS
etcd://embedded/PREFIX              the same in the embedded etcd of --data-dir
config:FILE                         the tree of a server with this configuration, and its access to etcd
archive:/path, archive:s3://...     a moment of an archive of zketcd
"""

import re
from typing import NamedTuple

from proxy.options.values import EMBEDDED
from proxy.support.addresses import servers

PARQUET = "parquet:"
ARCHIVE = "archive:"
CONFIG = "config:"
ADMIN = ("http://", "https://")
ENSEMBLES = ("zk://", "zookeeper://")
#: Schemes of names of trees in etcd, and etcd's own.
ETCD = {"etcd": "http", "etcds": "https"}

_IN_ETCD = re.compile(r"(etcds?)://([^/?]+)(?:/?\?prefix=(.*)|(/.*[^/])/*)", re.DOTALL)


class Identity(NamedTuple):
    """Our credentials, e.g. scheme digest, identity user:password."""

    scheme: str
    identity: bytes


def is_ensemble(name: str) -> bool:
    """Whether a name is that of a running ensemble."""
    return name.startswith(ENSEMBLES)


def is_in_etcd(name: str) -> bool:
    """Whether a name is that of a tree in etcd."""
    return name.startswith((CONFIG, *(f"{scheme}://" for scheme in ETCD)))


def servers_of(url: str) -> tuple[tuple[str, int], ...]:
    """The servers of zk://HOST:PORT,HOST:PORT; without a port it is ZooKeeper's own. Raises ValueError."""
    return servers(url.partition("://")[2].rstrip("/"))


def etcd_and_prefix(url: str) -> tuple[str, str]:
    """(client URLs of etcd, separated by commas, or "embedded"; the prefix) of a tree. Raises ValueError."""
    if "@" in re.split("[/?]", url.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("give --etcd-user and --etcd-password, not a user and password in a URL")
    found = _IN_ETCD.fullmatch(url)
    if found is None:
        scheme = url.partition("://")[0]
        raise ValueError(
            f"{url} is not {scheme}://HOST:PORT/PREFIX, nor {scheme}://HOST:PORT?prefix=PREFIX for a prefix"
            " without a slash before it"
        )
    scheme, hosts, whole, path = found.groups()
    endpoints = ",".join(f"{ETCD[scheme]}://{host}" for host in hosts.split(","))
    if (scheme, hosts) == ("etcd", EMBEDDED):
        endpoints = EMBEDDED
    return endpoints, path if whole is None else whole
