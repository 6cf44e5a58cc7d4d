"""The address of a running ensemble, and our identity there: zk://HOST:PORT,HOST:PORT, SCHEME:ID. Pure."""

import re
from typing import NamedTuple

DEFAULT_PORT = 2181
LAST_PORT = 65535
SCHEMES = ("zk://", "zookeeper://")
_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[^/:\s]+)(?::(\d{1,5}))?")


class Identity(NamedTuple):
    """Our credentials, e.g. scheme digest, identity user:password."""

    scheme: str
    identity: bytes


def is_url(path: str) -> bool:
    """Whether a path names a running ensemble."""
    return path.startswith(SCHEMES)


def servers_of(url: str) -> tuple[tuple[str, int], ...]:
    """The servers of zk://HOST:PORT,HOST:PORT; without a port it is ZooKeeper's own. Raises ValueError."""
    servers = []
    for server in url.partition("://")[2].rstrip("/").split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found[2] or DEFAULT_PORT) <= LAST_PORT:
            raise ValueError(f"{url}: {server!r} is not HOST:PORT")
        servers.append((found[1].strip("[]"), int(found[2] or DEFAULT_PORT)))
    return tuple(servers)


def identity_of(text: str) -> Identity:
    """SCHEME:ID of a command line. Raises ValueError."""
    scheme, colon, identity = text.partition(":")
    if not colon or not scheme:
        raise ValueError(f"{text!r} is not SCHEME:ID")
    return Identity(scheme, identity.encode())
